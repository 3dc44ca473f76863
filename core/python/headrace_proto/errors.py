"""Status codes of the binary protocol. Made by proto/generate_errors.py from proto/errors.toml."""
# ruff: noqa: E501

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import MappingProxyType


class Origin(StrEnum):
    """Producer of a status."""

    WIRE = "wire"
    """A server, in normal operation."""
    WIRE_INTERNAL = "wire-internal"
    """A server, when its disk or internals fail."""
    STARTUP = "startup"
    """A server that cannot start."""
    HTTP = "http"
    """The HTTP interface only."""
    CLIENT = "client"
    """Client libraries only."""
    NEVER = "never"
    """None: the entry only reserves the number."""


class Status(IntEnum):
    """The number at the start of every response: 0 is success.

    A peer may send numbers that are not defined here; ``find`` takes any.
    """

    OK = 0
    ERROR = 1
    INVALID_CONFIGURATION = 2
    INVALID_COMMAND = 3
    INVALID_FORMAT = 4
    FEATURE_UNAVAILABLE = 5
    INVALID_IDENTIFIER = 6
    INVALID_VERSION = 7
    DISCONNECTED = 8
    CANNOT_ESTABLISH_CONNECTION = 9
    CANNOT_CREATE_BASE_DIRECTORY = 10
    CANNOT_CREATE_RUNTIME_DIRECTORY = 11
    CANNOT_REMOVE_RUNTIME_DIRECTORY = 12
    CANNOT_CREATE_STATE_DIRECTORY = 13
    STATE_FILE_NOT_FOUND = 14
    STATE_FILE_CORRUPTED = 15
    INVALID_STATE_ENTRY_CHECKSUM = 16
    CANNOT_OPEN_DATABASE = 19
    RESOURCE_NOT_FOUND = 20
    CANNOT_CLOSE_WEB_SOCKET_CONNECTION = 21
    STALE_CLIENT = 30
    TCP_ERROR = 31
    QUIC_ERROR = 32
    INVALID_SERVER_ADDRESS = 33
    INVALID_CLIENT_ADDRESS = 34
    INVALID_IP_ADDRESS = 35
    HTTP_ERROR = 36
    UNAUTHENTICATED = 40
    UNAUTHORIZED = 41
    INVALID_CREDENTIALS = 42
    INVALID_USERNAME = 43
    INVALID_PASSWORD = 44
    INVALID_USER_STATUS = 45
    USER_ALREADY_EXISTS = 46
    USER_INACTIVE = 47
    CANNOT_DELETE_USER = 48
    CANNOT_CHANGE_PERMISSIONS = 49
    INVALID_PERSONAL_ACCESS_TOKEN_NAME = 50
    PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS = 51
    PERSONAL_ACCESS_TOKENS_LIMIT_REACHED = 52
    INVALID_PERSONAL_ACCESS_TOKEN = 53
    PERSONAL_ACCESS_TOKEN_EXPIRED = 54
    USERS_LIMIT_REACHED = 55
    NOT_CONNECTED = 61
    CLIENT_SHUTDOWN = 63
    INVALID_TLS_DOMAIN = 64
    INVALID_TLS_CERTIFICATE_PATH = 65
    INVALID_TLS_CERTIFICATE = 66
    FAILED_TO_ADD_CERTIFICATE = 67
    INVALID_ENCRYPTION_KEY = 70
    CANNOT_ENCRYPT_DATA = 71
    CANNOT_DECRYPT_DATA = 72
    INVALID_JWT_ALGORITHM = 73
    INVALID_JWT_SECRET = 74
    JWT_MISSING = 75
    CANNOT_GENERATE_JWT = 76
    ACCESS_TOKEN_MISSING = 77
    INVALID_ACCESS_TOKEN = 78
    CANNOT_FETCH_JWKS = 79
    INVALID_SIZE_BYTES = 80
    INVALID_UTF8 = 81
    INVALID_NUMBER_ENCODING = 82
    INVALID_BOOLEAN_VALUE = 83
    INVALID_NUMBER_VALUE = 84
    CLIENT_NOT_FOUND = 100
    INVALID_CLIENT_ID = 101
    CONNECTION_CLOSED = 206
    CANNOT_PARSE_HEADER_KIND = 209
    HTTP_RESPONSE_ERROR = 300
    INVALID_HTTP_REQUEST = 301
    INVALID_JSON_RESPONSE = 302
    INVALID_BYTES_RESPONSE = 303
    EMPTY_RESPONSE = 304
    CANNOT_CREATE_ENDPOINT = 305
    CANNOT_PARSE_URL = 306
    WEB_SOCKET_ERROR = 400
    WEB_SOCKET_CONNECTION_ERROR = 401
    WEB_SOCKET_CLOSE_ERROR = 402
    WEB_SOCKET_RECEIVE_ERROR = 403
    WEB_SOCKET_SEND_ERROR = 404
    CANNOT_CREATE_STREAMS_DIRECTORY = 1000
    CANNOT_CREATE_STREAM_DIRECTORY = 1001
    CANNOT_CREATE_STREAM_INFO = 1002
    CANNOT_UPDATE_STREAM_INFO = 1003
    CANNOT_OPEN_STREAM_INFO = 1004
    CANNOT_READ_STREAM_INFO = 1005
    CANNOT_CREATE_STREAM = 1006
    CANNOT_DELETE_STREAM = 1007
    CANNOT_DELETE_STREAM_DIRECTORY = 1008
    STREAM_ID_NOT_FOUND = 1009
    STREAM_NAME_NOT_FOUND = 1010
    STREAM_DIRECTORY_NOT_FOUND = 1011
    STREAM_NAME_ALREADY_EXISTS = 1012
    INVALID_STREAM_NAME = 1013
    INVALID_STREAM_ID = 1014
    CANNOT_READ_STREAMS = 1015
    INVALID_TOPIC_SIZE = 1019
    CANNOT_CREATE_TOPICS_DIRECTORY = 2000
    CANNOT_CREATE_TOPIC_DIRECTORY = 2001
    CANNOT_CREATE_TOPIC_INFO = 2002
    CANNOT_UPDATE_TOPIC_INFO = 2003
    CANNOT_OPEN_TOPIC_INFO = 2004
    CANNOT_READ_TOPIC_INFO = 2005
    CANNOT_CREATE_TOPIC = 2006
    CANNOT_DELETE_TOPIC = 2007
    CANNOT_DELETE_TOPIC_DIRECTORY = 2008
    CANNOT_POLL_TOPIC = 2009
    TOPIC_ID_NOT_FOUND = 2010
    TOPIC_NAME_NOT_FOUND = 2011
    TOPIC_NAME_ALREADY_EXISTS = 2013
    INVALID_TOPIC_NAME = 2014
    TOO_MANY_PARTITIONS = 2015
    INVALID_TOPIC_ID = 2016
    CANNOT_READ_TOPICS = 2017
    INVALID_REPLICATION_FACTOR = 2018
    INVALID_PARTITIONS_COUNT = 2019
    TOPIC_DIRECTORY_NOT_FOUND = 2020
    CANNOT_CREATE_PARTITION = 3000
    CANNOT_CREATE_PARTITIONS_DIRECTORY = 3001
    CANNOT_CREATE_PARTITION_DIRECTORY = 3002
    CANNOT_OPEN_PARTITION_LOG_FILE = 3003
    CANNOT_READ_PARTITIONS = 3004
    CANNOT_DELETE_PARTITION = 3005
    CANNOT_DELETE_PARTITION_DIRECTORY = 3006
    PARTITION_NOT_FOUND = 3007
    NO_PARTITIONS = 3008
    TOPIC_FULL = 3009
    CANNOT_DELETE_CONSUMER_OFFSETS_DIRECTORY = 3010
    CANNOT_DELETE_CONSUMER_OFFSET_FILE = 3011
    CANNOT_CREATE_CONSUMER_OFFSETS_DIRECTORY = 3012
    CANNOT_READ_CONSUMER_OFFSETS = 3020
    CONSUMER_OFFSET_NOT_FOUND = 3021
    NOT_RESOLVED_CONSUMER = 3022
    CANNOT_OPEN_CONSUMER_OFFSETS_FILE = 3023
    SEGMENT_NOT_FOUND = 4000
    SEGMENT_CLOSED = 4001
    INVALID_SEGMENT_SIZE = 4002
    CANNOT_CREATE_SEGMENT_LOG_FILE = 4003
    CANNOT_CREATE_SEGMENT_INDEX_FILE = 4004
    CANNOT_CREATE_SEGMENT_TIME_INDEX_FILE = 4005
    CANNOT_SAVE_MESSAGES_TO_SEGMENT = 4006
    CANNOT_SAVE_INDEX_TO_SEGMENT = 4007
    CANNOT_SAVE_TIME_INDEX_TO_SEGMENT = 4008
    INVALID_MESSAGES_COUNT = 4009
    CANNOT_APPEND_MESSAGE = 4010
    CANNOT_READ_MESSAGE = 4011
    CANNOT_READ_MESSAGE_ID = 4012
    CANNOT_READ_MESSAGE_STATE = 4013
    CANNOT_READ_MESSAGE_TIMESTAMP = 4014
    CANNOT_READ_HEADERS_LENGTH = 4015
    CANNOT_READ_HEADERS_PAYLOAD = 4016
    TOO_BIG_USER_HEADERS = 4017
    INVALID_HEADER_KEY = 4018
    INVALID_HEADER_VALUE = 4019
    CANNOT_READ_MESSAGE_LENGTH = 4020
    CANNOT_READ_MESSAGE_PAYLOAD = 4021
    TOO_BIG_MESSAGE_PAYLOAD = 4022
    TOO_MANY_MESSAGES = 4023
    EMPTY_MESSAGE_PAYLOAD = 4024
    INVALID_MESSAGE_PAYLOAD_LENGTH = 4025
    CANNOT_READ_MESSAGE_CHECKSUM = 4026
    INVALID_MESSAGE_CHECKSUM = 4027
    INVALID_KEY_VALUE_LENGTH = 4028
    COMMAND_LENGTH_ERROR = 4029
    INVALID_SEGMENTS_COUNT = 4030
    NON_ZERO_OFFSET = 4031
    NON_ZERO_TIMESTAMP = 4032
    MISSING_INDEX = 4033
    INVALID_INDEXES_BYTE_SIZE = 4034
    INVALID_INDEXES_COUNT = 4035
    INVALID_MESSAGES_SIZE = 4036
    TOO_SMALL_MESSAGE = 4037
    INVALID_MESSAGE_TIMESTAMP_DELTA = 4038
    INVALID_BATCH_CHECKSUM = 4039
    INVALID_HEADER_KIND = 4040
    CANNOT_SEND_MESSAGES_DUE_TO_CLIENT_DISCONNECTION = 4050
    BACKGROUND_SEND_ERROR = 4051
    BACKGROUND_SEND_TIMEOUT = 4052
    BACKGROUND_SEND_BUFFER_FULL = 4053
    BACKGROUND_WORKER_DISCONNECTED = 4054
    BACKGROUND_SEND_BUFFER_OVERFLOW = 4055
    PRODUCER_SEND_FAILED = 4056
    PRODUCER_CLOSED = 4057
    INVALID_OFFSET = 4100
    INVALID_RESERVED_FIELD = 4101
    CONSUMER_GROUP_ID_NOT_FOUND = 5000
    INVALID_CONSUMER_GROUP_ID = 5002
    CONSUMER_GROUP_NAME_NOT_FOUND = 5003
    CONSUMER_GROUP_NAME_ALREADY_EXISTS = 5004
    INVALID_CONSUMER_GROUP_NAME = 5005
    CONSUMER_GROUP_MEMBER_NOT_FOUND = 5006
    CANNOT_CREATE_CONSUMER_GROUP_INFO = 5007
    CANNOT_DELETE_CONSUMER_GROUP_INFO = 5008
    MISSING_BASE_OFFSET_RETAINED_MESSAGE_BATCH = 6000
    MISSING_LAST_OFFSET_DELTA_RETAINED_MESSAGE_BATCH = 6001
    MISSING_MAX_TIMESTAMP_RETAINED_MESSAGE_BATCH = 6002
    MISSING_LENGTH_RETAINED_MESSAGE_BATCH = 6003
    MISSING_PAYLOAD_RETAINED_MESSAGE_BATCH = 6004
    CANNOT_READ_BATCH_BASE_OFFSET = 7000
    CANNOT_READ_BATCH_LENGTH = 7001
    CANNOT_READ_LAST_OFFSET_DELTA = 7002
    CANNOT_READ_MAX_TIMESTAMP = 7003
    CANNOT_READ_BATCH_PAYLOAD = 7004
    INVALID_CONNECTION_STRING = 8000
    SNAPSHOT_FILE_COMPLETION_FAILED = 9000
    CANNOT_SERIALIZE_RESOURCE = 10000
    CANNOT_DESERIALIZE_RESOURCE = 10001
    CANNOT_READ_FILE = 10002
    CANNOT_READ_FILE_METADATA = 10003
    CANNOT_SEEK_FILE = 10004
    CANNOT_APPEND_TO_FILE = 10005
    CANNOT_WRITE_TO_FILE = 10006
    CANNOT_OVERWRITE_FILE = 10007
    CANNOT_DELETE_FILE = 10008
    CANNOT_SYNC_FILE = 10009
    CANNOT_READ_INDEX_OFFSET = 10010
    CANNOT_READ_INDEX_POSITION = 10011
    CANNOT_READ_INDEX_TIMESTAMP = 10012
    TIMESTAMP_OUT_OF_RANGE = 10013
    SHARD_NOT_FOUND = 11000
    SHARD_COMMUNICATION_ERROR = 11001
    CANNOT_BIND_TO_SOCKET = 12000
    TASK_TIMEOUT = 12001
    IO_ERROR = 13000
    TOO_MANY_LOGIN_ATTEMPTS = 20000
    TOO_MANY_WAITS = 20001
    TOO_MANY_CONSUMER_GROUPS = 20002
    TOO_MANY_CONSUMERS = 20003
    OUTCOME_UNKNOWN = 20004
    TOO_MANY_CHANGES = 20005
    TOO_MANY_CONNECTIONS = 20006
    NODE_NOT_FOUND = 20100
    NODE_REPLACED = 20101
    NODE_IN_USE = 20102
    TOO_MANY_NODES = 20103
    INVALID_PLACEMENT = 20104
    PARTITION_UNAVAILABLE = 20200
    PARTITION_ELSEWHERE = 20201
    INVALID_TICKET = 20202
    TRANSACTION_FENCED = 20300
    STAGE_EXPIRED = 20301
    STAGE_ABORTED = 20302
    STAGE_IN_USE = 20303
    STAGE_NOT_FOUND = 20304
    INVALID_STAGE_CHUNK = 20305
    TOO_MANY_STAGES = 20306
    TOO_MANY_TRANSACTIONS = 20307
    PIN_TOO_LARGE = 20308
    TOO_MANY_PINS = 20309


@dataclass(frozen=True, slots=True)
class StatusInfo:
    """One entry of the registry.

    Attributes:
        status: The code.
        name: The name in ``CamelCase``, unique.
        origin: Producer of the status.
        retryable: The unchanged request may succeed when it is repeated, after connecting and logging in again where
            needed.
        description: What happened, as one sentence for people.
    """

    status: Status
    name: str
    origin: Origin
    retryable: bool
    description: str


# fmt: off
_ROWS = (
    (Status.ERROR, "Error", Origin.CLIENT, False, "A general failure; what a client shows for a status that it does not know."),
    (Status.INVALID_CONFIGURATION, "InvalidConfiguration", Origin.STARTUP, False, "The configuration of a listener or client is invalid."),
    (Status.INVALID_COMMAND, "InvalidCommand", Origin.WIRE, False, "The frame or its payload cannot be decoded: unknown command, truncated payload, unknown enumeration code, inconsistent sizes."),
    (Status.INVALID_FORMAT, "InvalidFormat", Origin.WIRE, False, "The payload can be decoded but breaks a rule of its structure: empty name, identifier or permissions of the wrong length."),
    (Status.FEATURE_UNAVAILABLE, "FeatureUnavailable", Origin.NEVER, False, "The server does not offer this feature, or not until all replicas of the metadata service have been upgraded."),
    (Status.INVALID_IDENTIFIER, "InvalidIdentifier", Origin.WIRE, False, "The stream or topic identifier of a send request is malformed."),
    (Status.INVALID_VERSION, "InvalidVersion", Origin.CLIENT, False, "The text is not a semantic version."),
    (Status.DISCONNECTED, "Disconnected", Origin.WIRE, True, "The server is shutting down and closes the connection."),
    (Status.CANNOT_ESTABLISH_CONNECTION, "CannotEstablishConnection", Origin.CLIENT, True, "The connection to the server cannot be established."),
    (Status.CANNOT_CREATE_BASE_DIRECTORY, "CannotCreateBaseDirectory", Origin.STARTUP, False, "The data directory cannot be created."),
    (Status.CANNOT_CREATE_RUNTIME_DIRECTORY, "CannotCreateRuntimeDirectory", Origin.STARTUP, False, "The runtime directory cannot be created."),
    (Status.CANNOT_REMOVE_RUNTIME_DIRECTORY, "CannotRemoveRuntimeDirectory", Origin.STARTUP, False, "The runtime directory cannot be removed."),
    (Status.CANNOT_CREATE_STATE_DIRECTORY, "CannotCreateStateDirectory", Origin.STARTUP, False, "The state directory cannot be created."),
    (Status.STATE_FILE_NOT_FOUND, "StateFileNotFound", Origin.STARTUP, False, "The state log does not exist."),
    (Status.STATE_FILE_CORRUPTED, "StateFileCorrupted", Origin.STARTUP, False, "The state log has a gap in its sequence."),
    (Status.INVALID_STATE_ENTRY_CHECKSUM, "InvalidStateEntryChecksum", Origin.STARTUP, False, "An entry of the state log does not match its checksum."),
    (Status.CANNOT_OPEN_DATABASE, "CannotOpenDatabase", Origin.NEVER, False, "The database cannot be opened."),
    (Status.RESOURCE_NOT_FOUND, "ResourceNotFound", Origin.WIRE, False, "The user or access token does not exist."),
    (Status.CANNOT_CLOSE_WEB_SOCKET_CONNECTION, "CannotCloseWebSocketConnection", Origin.CLIENT, False, "The WebSocket connection cannot be closed cleanly."),
    (Status.STALE_CLIENT, "StaleClient", Origin.WIRE, True, "The connection was removed from the registry of clients; connect and log in again."),
    (Status.TCP_ERROR, "TcpError", Origin.WIRE, True, "Reading from or writing to the TCP socket failed."),
    (Status.QUIC_ERROR, "QuicError", Origin.WIRE_INTERNAL, True, "Reading from or writing to the QUIC stream failed."),
    (Status.INVALID_SERVER_ADDRESS, "InvalidServerAddress", Origin.CLIENT, False, "The address of the server cannot be resolved."),
    (Status.INVALID_CLIENT_ADDRESS, "InvalidClientAddress", Origin.CLIENT, False, "The address that the client should bind to is invalid."),
    (Status.INVALID_IP_ADDRESS, "InvalidIpAddress", Origin.CLIENT, False, "The text is not an IP address."),
    (Status.HTTP_ERROR, "HttpError", Origin.HTTP, False, "The HTTP server failed."),
    (Status.UNAUTHENTICATED, "Unauthenticated", Origin.WIRE, True, "The connection is not logged in."),
    (Status.UNAUTHORIZED, "Unauthorized", Origin.WIRE, False, "The user lacks the permission for this operation."),
    (Status.INVALID_CREDENTIALS, "InvalidCredentials", Origin.WIRE, False, "The user name or password is wrong."),
    (Status.INVALID_USERNAME, "InvalidUsername", Origin.WIRE, False, "The user name is shorter than 3 or longer than 50 bytes."),
    (Status.INVALID_PASSWORD, "InvalidPassword", Origin.WIRE, False, "The password is shorter than 3 or longer than 100 bytes."),
    (Status.INVALID_USER_STATUS, "InvalidUserStatus", Origin.CLIENT, False, "The text is not a user status."),
    (Status.USER_ALREADY_EXISTS, "UserAlreadyExists", Origin.WIRE, False, "The user name is taken."),
    (Status.USER_INACTIVE, "UserInactive", Origin.WIRE, False, "The user is inactive."),
    (Status.CANNOT_DELETE_USER, "CannotDeleteUser", Origin.WIRE, False, "The root user cannot be deleted."),
    (Status.CANNOT_CHANGE_PERMISSIONS, "CannotChangePermissions", Origin.WIRE, False, "The permissions of the root user cannot be changed."),
    (Status.INVALID_PERSONAL_ACCESS_TOKEN_NAME, "InvalidPersonalAccessTokenName", Origin.WIRE, False, "The name of the access token is shorter than 3 or longer than 30 bytes."),
    (Status.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS, "PersonalAccessTokenAlreadyExists", Origin.WIRE, False, "The user has an access token of this name already."),
    (Status.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED, "PersonalAccessTokensLimitReached", Origin.WIRE, False, "The user holds the maximum number of access tokens already."),
    (Status.INVALID_PERSONAL_ACCESS_TOKEN, "InvalidPersonalAccessToken", Origin.HTTP, False, "The access token is not valid."),
    (Status.PERSONAL_ACCESS_TOKEN_EXPIRED, "PersonalAccessTokenExpired", Origin.WIRE, False, "The access token has expired."),
    (Status.USERS_LIMIT_REACHED, "UsersLimitReached", Origin.WIRE, False, "No further user can be created."),
    (Status.NOT_CONNECTED, "NotConnected", Origin.CLIENT, True, "The client is not connected."),
    (Status.CLIENT_SHUTDOWN, "ClientShutdown", Origin.CLIENT, False, "The client has been shut down."),
    (Status.INVALID_TLS_DOMAIN, "InvalidTlsDomain", Origin.CLIENT, False, "The server name for TLS is invalid."),
    (Status.INVALID_TLS_CERTIFICATE_PATH, "InvalidTlsCertificatePath", Origin.CLIENT, False, "The certificate authority file cannot be read."),
    (Status.INVALID_TLS_CERTIFICATE, "InvalidTlsCertificate", Origin.CLIENT, False, "The certificate authority's certificate is invalid."),
    (Status.FAILED_TO_ADD_CERTIFICATE, "FailedToAddCertificate", Origin.CLIENT, False, "The certificate cannot be added to the trusted ones."),
    (Status.INVALID_ENCRYPTION_KEY, "InvalidEncryptionKey", Origin.STARTUP, False, "The encryption key is not 32 bytes long."),
    (Status.CANNOT_ENCRYPT_DATA, "CannotEncryptData", Origin.WIRE_INTERNAL, False, "The data cannot be encrypted."),
    (Status.CANNOT_DECRYPT_DATA, "CannotDecryptData", Origin.WIRE_INTERNAL, False, "The data cannot be decrypted."),
    (Status.INVALID_JWT_ALGORITHM, "InvalidJwtAlgorithm", Origin.HTTP, False, "The signature algorithm of the web token is not supported."),
    (Status.INVALID_JWT_SECRET, "InvalidJwtSecret", Origin.HTTP, False, "The secret for web tokens is invalid."),
    (Status.JWT_MISSING, "JwtMissing", Origin.HTTP, False, "The request carries no web token."),
    (Status.CANNOT_GENERATE_JWT, "CannotGenerateJwt", Origin.HTTP, False, "The web token cannot be issued."),
    (Status.ACCESS_TOKEN_MISSING, "AccessTokenMissing", Origin.HTTP, False, "The request carries no access token."),
    (Status.INVALID_ACCESS_TOKEN, "InvalidAccessToken", Origin.HTTP, False, "The access token is invalid or expired."),
    (Status.CANNOT_FETCH_JWKS, "CannotFetchJwks", Origin.HTTP, False, "The key set for web tokens cannot be fetched."),
    (Status.INVALID_SIZE_BYTES, "InvalidSizeBytes", Origin.NEVER, False, "A size in bytes is out of range."),
    (Status.INVALID_UTF8, "InvalidUtf8", Origin.CLIENT, False, "The bytes are not valid UTF-8."),
    (Status.INVALID_NUMBER_ENCODING, "InvalidNumberEncoding", Origin.CLIENT, False, "The bytes are not a number of the expected width."),
    (Status.INVALID_BOOLEAN_VALUE, "InvalidBooleanValue", Origin.CLIENT, False, "The text is not a boolean."),
    (Status.INVALID_NUMBER_VALUE, "InvalidNumberValue", Origin.CLIENT, False, "The text is not a number."),
    (Status.CLIENT_NOT_FOUND, "ClientNotFound", Origin.WIRE, False, "The connection was removed from the registry of clients and cannot identify itself or log in any more."),
    (Status.INVALID_CLIENT_ID, "InvalidClientId", Origin.WIRE, False, "The client id is invalid: 0 names no client."),
    (Status.CONNECTION_CLOSED, "ConnectionClosed", Origin.CLIENT, True, "The peer closed the connection."),
    (Status.CANNOT_PARSE_HEADER_KIND, "CannotParseHeaderKind", Origin.CLIENT, False, "The text is not a kind of user header."),
    (Status.HTTP_RESPONSE_ERROR, "HttpResponseError", Origin.CLIENT, False, "The HTTP server answered with an error."),
    (Status.INVALID_HTTP_REQUEST, "InvalidHttpRequest", Origin.CLIENT, False, "The HTTP request is invalid."),
    (Status.INVALID_JSON_RESPONSE, "InvalidJsonResponse", Origin.CLIENT, False, "The HTTP response is not the expected JSON."),
    (Status.INVALID_BYTES_RESPONSE, "InvalidBytesResponse", Origin.CLIENT, False, "The HTTP response does not have the expected bytes."),
    (Status.EMPTY_RESPONSE, "EmptyResponse", Origin.CLIENT, True, "The response is empty or too short."),
    (Status.CANNOT_CREATE_ENDPOINT, "CannotCreateEndpoint", Origin.CLIENT, False, "The QUIC endpoint cannot be created."),
    (Status.CANNOT_PARSE_URL, "CannotParseUrl", Origin.CLIENT, False, "The text is not a URL."),
    (Status.WEB_SOCKET_ERROR, "WebSocketError", Origin.CLIENT, False, "The WebSocket failed."),
    (Status.WEB_SOCKET_CONNECTION_ERROR, "WebSocketConnectionError", Origin.CLIENT, False, "The WebSocket connection cannot be established."),
    (Status.WEB_SOCKET_CLOSE_ERROR, "WebSocketCloseError", Origin.CLIENT, False, "Closing the WebSocket failed."),
    (Status.WEB_SOCKET_RECEIVE_ERROR, "WebSocketReceiveError", Origin.CLIENT, True, "Receiving from the WebSocket failed."),
    (Status.WEB_SOCKET_SEND_ERROR, "WebSocketSendError", Origin.CLIENT, True, "Sending to the WebSocket failed."),
    (Status.CANNOT_CREATE_STREAMS_DIRECTORY, "CannotCreateStreamsDirectory", Origin.STARTUP, False, "The directory of all streams cannot be created."),
    (Status.CANNOT_CREATE_STREAM_DIRECTORY, "CannotCreateStreamDirectory", Origin.WIRE_INTERNAL, False, "The directory of the stream cannot be created."),
    (Status.CANNOT_CREATE_STREAM_INFO, "CannotCreateStreamInfo", Origin.NEVER, False, "The information file of the stream cannot be created."),
    (Status.CANNOT_UPDATE_STREAM_INFO, "CannotUpdateStreamInfo", Origin.NEVER, False, "The information file of the stream cannot be updated."),
    (Status.CANNOT_OPEN_STREAM_INFO, "CannotOpenStreamInfo", Origin.NEVER, False, "The information file of the stream cannot be opened."),
    (Status.CANNOT_READ_STREAM_INFO, "CannotReadStreamInfo", Origin.NEVER, False, "The information file of the stream cannot be read."),
    (Status.CANNOT_CREATE_STREAM, "CannotCreateStream", Origin.NEVER, False, "The stream cannot be created."),
    (Status.CANNOT_DELETE_STREAM, "CannotDeleteStream", Origin.NEVER, False, "The stream cannot be deleted."),
    (Status.CANNOT_DELETE_STREAM_DIRECTORY, "CannotDeleteStreamDirectory", Origin.WIRE_INTERNAL, False, "The directory of the stream cannot be removed."),
    (Status.STREAM_ID_NOT_FOUND, "StreamIdNotFound", Origin.WIRE, False, "The stream does not exist, whether it was named by id or by name."),
    (Status.STREAM_NAME_NOT_FOUND, "StreamNameNotFound", Origin.CLIENT, False, "No stream has this name."),
    (Status.STREAM_DIRECTORY_NOT_FOUND, "StreamDirectoryNotFound", Origin.WIRE_INTERNAL, False, "The directory of the stream does not exist."),
    (Status.STREAM_NAME_ALREADY_EXISTS, "StreamNameAlreadyExists", Origin.WIRE, False, "The stream name is taken."),
    (Status.INVALID_STREAM_NAME, "InvalidStreamName", Origin.HTTP, False, "The stream name is invalid."),
    (Status.INVALID_STREAM_ID, "InvalidStreamId", Origin.NEVER, False, "The stream id is invalid."),
    (Status.CANNOT_READ_STREAMS, "CannotReadStreams", Origin.NEVER, False, "The streams cannot be read."),
    (Status.INVALID_TOPIC_SIZE, "InvalidTopicSize", Origin.WIRE, False, "The maximum size of the topic is smaller than one segment."),
    (Status.CANNOT_CREATE_TOPICS_DIRECTORY, "CannotCreateTopicsDirectory", Origin.NEVER, False, "The directory of all topics cannot be created."),
    (Status.CANNOT_CREATE_TOPIC_DIRECTORY, "CannotCreateTopicDirectory", Origin.WIRE_INTERNAL, False, "The directory of the topic cannot be created."),
    (Status.CANNOT_CREATE_TOPIC_INFO, "CannotCreateTopicInfo", Origin.NEVER, False, "The information file of the topic cannot be created."),
    (Status.CANNOT_UPDATE_TOPIC_INFO, "CannotUpdateTopicInfo", Origin.NEVER, False, "The information file of the topic cannot be updated."),
    (Status.CANNOT_OPEN_TOPIC_INFO, "CannotOpenTopicInfo", Origin.NEVER, False, "The information file of the topic cannot be opened."),
    (Status.CANNOT_READ_TOPIC_INFO, "CannotReadTopicInfo", Origin.NEVER, False, "The information file of the topic cannot be read."),
    (Status.CANNOT_CREATE_TOPIC, "CannotCreateTopic", Origin.NEVER, False, "The topic cannot be created."),
    (Status.CANNOT_DELETE_TOPIC, "CannotDeleteTopic", Origin.NEVER, False, "The topic cannot be deleted."),
    (Status.CANNOT_DELETE_TOPIC_DIRECTORY, "CannotDeleteTopicDirectory", Origin.WIRE_INTERNAL, False, "The directory of the topic cannot be removed."),
    (Status.CANNOT_POLL_TOPIC, "CannotPollTopic", Origin.NEVER, False, "The topic cannot be polled."),
    (Status.TOPIC_ID_NOT_FOUND, "TopicIdNotFound", Origin.WIRE, False, "The topic does not exist, whether it was named by id or by name, or has no partition to send to."),
    (Status.TOPIC_NAME_NOT_FOUND, "TopicNameNotFound", Origin.CLIENT, False, "No topic has this name."),
    (Status.TOPIC_NAME_ALREADY_EXISTS, "TopicNameAlreadyExists", Origin.WIRE, False, "The topic name is taken within the stream."),
    (Status.INVALID_TOPIC_NAME, "InvalidTopicName", Origin.HTTP, False, "The topic name is invalid."),
    (Status.TOO_MANY_PARTITIONS, "TooManyPartitions", Origin.WIRE, False, "The number of partitions is out of range for one command."),
    (Status.INVALID_TOPIC_ID, "InvalidTopicId", Origin.NEVER, False, "The topic id is invalid."),
    (Status.CANNOT_READ_TOPICS, "CannotReadTopics", Origin.NEVER, False, "The topics cannot be read."),
    (Status.INVALID_REPLICATION_FACTOR, "InvalidReplicationFactor", Origin.HTTP, False, "The replication factor is invalid."),
    (Status.INVALID_PARTITIONS_COUNT, "InvalidPartitionsCount", Origin.WIRE, False, "More partitions should be deleted than the topic has."),
    (Status.TOPIC_DIRECTORY_NOT_FOUND, "TopicDirectoryNotFound", Origin.WIRE_INTERNAL, False, "The directory of the topic does not exist."),
    (Status.CANNOT_CREATE_PARTITION, "CannotCreatePartition", Origin.WIRE_INTERNAL, False, "The partition cannot be created."),
    (Status.CANNOT_CREATE_PARTITIONS_DIRECTORY, "CannotCreatePartitionsDirectory", Origin.WIRE_INTERNAL, False, "The directory of all partitions cannot be created."),
    (Status.CANNOT_CREATE_PARTITION_DIRECTORY, "CannotCreatePartitionDirectory", Origin.WIRE_INTERNAL, False, "The directory of the partition cannot be created."),
    (Status.CANNOT_OPEN_PARTITION_LOG_FILE, "CannotOpenPartitionLogFile", Origin.NEVER, False, "The log file of the partition cannot be opened."),
    (Status.CANNOT_READ_PARTITIONS, "CannotReadPartitions", Origin.WIRE_INTERNAL, False, "The files of the partitions cannot be listed."),
    (Status.CANNOT_DELETE_PARTITION, "CannotDeletePartition", Origin.NEVER, False, "The partition cannot be deleted."),
    (Status.CANNOT_DELETE_PARTITION_DIRECTORY, "CannotDeletePartitionDirectory", Origin.WIRE_INTERNAL, False, "The directory of the partition cannot be removed."),
    (Status.PARTITION_NOT_FOUND, "PartitionNotFound", Origin.WIRE, False, "The partition does not exist in the topic."),
    (Status.NO_PARTITIONS, "NoPartitions", Origin.NEVER, False, "The topic has no partitions."),
    (Status.TOPIC_FULL, "TopicFull", Origin.NEVER, False, "The topic holds as many bytes as its quota allows; nothing was appended."),
    (Status.CANNOT_DELETE_CONSUMER_OFFSETS_DIRECTORY, "CannotDeleteConsumerOffsetsDirectory", Origin.NEVER, False, "The directory of consumer offsets cannot be removed."),
    (Status.CANNOT_DELETE_CONSUMER_OFFSET_FILE, "CannotDeleteConsumerOffsetFile", Origin.WIRE_INTERNAL, False, "The file of a consumer offset cannot be removed."),
    (Status.CANNOT_CREATE_CONSUMER_OFFSETS_DIRECTORY, "CannotCreateConsumerOffsetsDirectory", Origin.NEVER, False, "The directory of consumer offsets cannot be created."),
    (Status.CANNOT_READ_CONSUMER_OFFSETS, "CannotReadConsumerOffsets", Origin.WIRE_INTERNAL, False, "The consumer offsets cannot be read."),
    (Status.CONSUMER_OFFSET_NOT_FOUND, "ConsumerOffsetNotFound", Origin.WIRE, False, "No offset is stored for this consumer or group on this partition."),
    (Status.NOT_RESOLVED_CONSUMER, "NotResolvedConsumer", Origin.WIRE, False, "The member of the group does not own the partition."),
    (Status.CANNOT_OPEN_CONSUMER_OFFSETS_FILE, "CannotOpenConsumerOffsetsFile", Origin.WIRE_INTERNAL, False, "The file of a consumer offset cannot be opened for writing."),
    (Status.SEGMENT_NOT_FOUND, "SegmentNotFound", Origin.NEVER, False, "The segment does not exist."),
    (Status.SEGMENT_CLOSED, "SegmentClosed", Origin.NEVER, False, "The segment is closed."),
    (Status.INVALID_SEGMENT_SIZE, "InvalidSegmentSize", Origin.NEVER, False, "The segment size is invalid."),
    (Status.CANNOT_CREATE_SEGMENT_LOG_FILE, "CannotCreateSegmentLogFile", Origin.NEVER, False, "The log file of the segment cannot be created."),
    (Status.CANNOT_CREATE_SEGMENT_INDEX_FILE, "CannotCreateSegmentIndexFile", Origin.NEVER, False, "The index file of the segment cannot be created."),
    (Status.CANNOT_CREATE_SEGMENT_TIME_INDEX_FILE, "CannotCreateSegmentTimeIndexFile", Origin.NEVER, False, "The time index file of the segment cannot be created."),
    (Status.CANNOT_SAVE_MESSAGES_TO_SEGMENT, "CannotSaveMessagesToSegment", Origin.NEVER, False, "The messages cannot be written to the segment."),
    (Status.CANNOT_SAVE_INDEX_TO_SEGMENT, "CannotSaveIndexToSegment", Origin.WIRE_INTERNAL, False, "The index of the segment cannot be written."),
    (Status.CANNOT_SAVE_TIME_INDEX_TO_SEGMENT, "CannotSaveTimeIndexToSegment", Origin.NEVER, False, "The time index of the segment cannot be written."),
    (Status.INVALID_MESSAGES_COUNT, "InvalidMessagesCount", Origin.WIRE, False, "The number of messages is invalid: a batch holds at least one."),
    (Status.CANNOT_APPEND_MESSAGE, "CannotAppendMessage", Origin.NEVER, False, "The message cannot be appended."),
    (Status.CANNOT_READ_MESSAGE, "CannotReadMessage", Origin.WIRE_INTERNAL, False, "The messages cannot be read from the segment."),
    (Status.CANNOT_READ_MESSAGE_ID, "CannotReadMessageId", Origin.NEVER, False, "The id of a stored message cannot be read."),
    (Status.CANNOT_READ_MESSAGE_STATE, "CannotReadMessageState", Origin.NEVER, False, "The state of a stored message cannot be read."),
    (Status.CANNOT_READ_MESSAGE_TIMESTAMP, "CannotReadMessageTimestamp", Origin.NEVER, False, "The timestamp of a stored message cannot be read."),
    (Status.CANNOT_READ_HEADERS_LENGTH, "CannotReadHeadersLength", Origin.NEVER, False, "The length of a stored message's headers cannot be read."),
    (Status.CANNOT_READ_HEADERS_PAYLOAD, "CannotReadHeadersPayload", Origin.NEVER, False, "The headers of a stored message cannot be read."),
    (Status.TOO_BIG_USER_HEADERS, "TooBigUserHeaders", Origin.WIRE, False, "The user headers of a message exceed 100,000 bytes."),
    (Status.INVALID_HEADER_KEY, "InvalidHeaderKey", Origin.CLIENT, False, "The key of a user header does not have the length of its kind."),
    (Status.INVALID_HEADER_VALUE, "InvalidHeaderValue", Origin.CLIENT, False, "The value of a user header is empty, too long, or does not have the length of its kind."),
    (Status.CANNOT_READ_MESSAGE_LENGTH, "CannotReadMessageLength", Origin.NEVER, False, "The length of a stored message cannot be read."),
    (Status.CANNOT_READ_MESSAGE_PAYLOAD, "CannotReadMessagePayload", Origin.NEVER, False, "The payload of a stored message cannot be read."),
    (Status.TOO_BIG_MESSAGE_PAYLOAD, "TooBigMessagePayload", Origin.WIRE, False, "The payload of a message exceeds 64,000,000 bytes."),
    (Status.TOO_MANY_MESSAGES, "TooManyMessages", Origin.NEVER, False, "The batch holds too many messages."),
    (Status.EMPTY_MESSAGE_PAYLOAD, "EmptyMessagePayload", Origin.NEVER, False, "The payload of a message is empty."),
    (Status.INVALID_MESSAGE_PAYLOAD_LENGTH, "InvalidMessagePayloadLength", Origin.CLIENT, False, "The client refuses to send a message with an empty payload."),
    (Status.CANNOT_READ_MESSAGE_CHECKSUM, "CannotReadMessageChecksum", Origin.NEVER, False, "The checksum of a stored message cannot be read."),
    (Status.INVALID_MESSAGE_CHECKSUM, "InvalidMessageChecksum", Origin.WIRE_INTERNAL, False, "A stored message does not match its checksum."),
    (Status.INVALID_KEY_VALUE_LENGTH, "InvalidKeyValueLength", Origin.HTTP, False, "The length of a key or value is invalid."),
    (Status.COMMAND_LENGTH_ERROR, "CommandLengthError", Origin.NEVER, False, "The length of the command is invalid."),
    (Status.INVALID_SEGMENTS_COUNT, "InvalidSegmentsCount", Origin.NEVER, False, "The number of segments is invalid."),
    (Status.NON_ZERO_OFFSET, "NonZeroOffset", Origin.WIRE, False, "An index entry of a send request has an offset; only the server assigns offsets."),
    (Status.NON_ZERO_TIMESTAMP, "NonZeroTimestamp", Origin.WIRE, False, "An index entry of a send request has a timestamp; only the server assigns timestamps."),
    (Status.MISSING_INDEX, "MissingIndex", Origin.WIRE, False, "The index positions of a send request do not delimit whole messages."),
    (Status.INVALID_INDEXES_BYTE_SIZE, "InvalidIndexesByteSize", Origin.NEVER, False, "The index block of a send request is not a whole number of entries."),
    (Status.INVALID_INDEXES_COUNT, "InvalidIndexesCount", Origin.NEVER, False, "The number of index entries differs from the number of messages."),
    (Status.INVALID_MESSAGES_SIZE, "InvalidMessagesSize", Origin.WIRE, False, "The sizes of the messages do not add up to the bytes received."),
    (Status.TOO_SMALL_MESSAGE, "TooSmallMessage", Origin.NEVER, False, "A message is shorter than its header."),
    (Status.INVALID_MESSAGE_TIMESTAMP_DELTA, "InvalidMessageTimestampDelta", Origin.NEVER, False, "The timestamp delta of a message is invalid."),
    (Status.INVALID_BATCH_CHECKSUM, "InvalidBatchChecksum", Origin.NEVER, False, "A batch does not match its checksum."),
    (Status.INVALID_HEADER_KIND, "InvalidHeaderKind", Origin.CLIENT, False, "The kind of a user header is unknown."),
    (Status.CANNOT_SEND_MESSAGES_DUE_TO_CLIENT_DISCONNECTION, "CannotSendMessagesDueToClientDisconnection", Origin.CLIENT, False, "The messages cannot be sent because the client disconnected."),
    (Status.BACKGROUND_SEND_ERROR, "BackgroundSendError", Origin.CLIENT, False, "Sending in the background failed."),
    (Status.BACKGROUND_SEND_TIMEOUT, "BackgroundSendTimeout", Origin.CLIENT, False, "Sending in the background took too long."),
    (Status.BACKGROUND_SEND_BUFFER_FULL, "BackgroundSendBufferFull", Origin.CLIENT, False, "The buffer of the background sender is full."),
    (Status.BACKGROUND_WORKER_DISCONNECTED, "BackgroundWorkerDisconnected", Origin.CLIENT, False, "The background sender has stopped."),
    (Status.BACKGROUND_SEND_BUFFER_OVERFLOW, "BackgroundSendBufferOverflow", Origin.CLIENT, False, "The buffer of the background sender overflowed."),
    (Status.PRODUCER_SEND_FAILED, "ProducerSendFailed", Origin.CLIENT, False, "The producer could not send some messages."),
    (Status.PRODUCER_CLOSED, "ProducerClosed", Origin.CLIENT, False, "The producer is closed."),
    (Status.INVALID_OFFSET, "InvalidOffset", Origin.WIRE, False, "The offset is beyond the last message of the partition, or the offsets of a batch decrease."),
    (Status.INVALID_RESERVED_FIELD, "InvalidReservedField", Origin.CLIENT, False, "The reserved field of a message header is not zero."),
    (Status.CONSUMER_GROUP_ID_NOT_FOUND, "ConsumerGroupIdNotFound", Origin.WIRE, False, "The consumer group does not exist, whether it was named by id or by name."),
    (Status.INVALID_CONSUMER_GROUP_ID, "InvalidConsumerGroupId", Origin.NEVER, False, "The id of the consumer group is invalid."),
    (Status.CONSUMER_GROUP_NAME_NOT_FOUND, "ConsumerGroupNameNotFound", Origin.CLIENT, False, "No consumer group has this name."),
    (Status.CONSUMER_GROUP_NAME_ALREADY_EXISTS, "ConsumerGroupNameAlreadyExists", Origin.WIRE, False, "The name of the consumer group is taken within the topic."),
    (Status.INVALID_CONSUMER_GROUP_NAME, "InvalidConsumerGroupName", Origin.HTTP, False, "The name of the consumer group is invalid."),
    (Status.CONSUMER_GROUP_MEMBER_NOT_FOUND, "ConsumerGroupMemberNotFound", Origin.WIRE, False, "The connection is not a member of the consumer group."),
    (Status.CANNOT_CREATE_CONSUMER_GROUP_INFO, "CannotCreateConsumerGroupInfo", Origin.NEVER, False, "The information file of the consumer group cannot be created."),
    (Status.CANNOT_DELETE_CONSUMER_GROUP_INFO, "CannotDeleteConsumerGroupInfo", Origin.NEVER, False, "The information file of the consumer group cannot be removed."),
    (Status.MISSING_BASE_OFFSET_RETAINED_MESSAGE_BATCH, "MissingBaseOffsetRetainedMessageBatch", Origin.NEVER, False, "A retained batch lacks its base offset."),
    (Status.MISSING_LAST_OFFSET_DELTA_RETAINED_MESSAGE_BATCH, "MissingLastOffsetDeltaRetainedMessageBatch", Origin.NEVER, False, "A retained batch lacks the delta of its last offset."),
    (Status.MISSING_MAX_TIMESTAMP_RETAINED_MESSAGE_BATCH, "MissingMaxTimestampRetainedMessageBatch", Origin.NEVER, False, "A retained batch lacks its highest timestamp."),
    (Status.MISSING_LENGTH_RETAINED_MESSAGE_BATCH, "MissingLengthRetainedMessageBatch", Origin.NEVER, False, "A retained batch lacks its length."),
    (Status.MISSING_PAYLOAD_RETAINED_MESSAGE_BATCH, "MissingPayloadRetainedMessageBatch", Origin.NEVER, False, "A retained batch lacks its payload."),
    (Status.CANNOT_READ_BATCH_BASE_OFFSET, "CannotReadBatchBaseOffset", Origin.NEVER, False, "The base offset of a stored batch cannot be read."),
    (Status.CANNOT_READ_BATCH_LENGTH, "CannotReadBatchLength", Origin.NEVER, False, "The length of a stored batch cannot be read."),
    (Status.CANNOT_READ_LAST_OFFSET_DELTA, "CannotReadLastOffsetDelta", Origin.NEVER, False, "The last offset delta of a stored batch cannot be read."),
    (Status.CANNOT_READ_MAX_TIMESTAMP, "CannotReadMaxTimestamp", Origin.NEVER, False, "The highest timestamp of a stored batch cannot be read."),
    (Status.CANNOT_READ_BATCH_PAYLOAD, "CannotReadBatchPayload", Origin.NEVER, False, "The payload of a stored batch cannot be read."),
    (Status.INVALID_CONNECTION_STRING, "InvalidConnectionString", Origin.CLIENT, False, "The connection string is invalid."),
    (Status.SNAPSHOT_FILE_COMPLETION_FAILED, "SnapshotFileCompletionFailed", Origin.WIRE_INTERNAL, False, "The snapshot archive cannot be completed."),
    (Status.CANNOT_SERIALIZE_RESOURCE, "CannotSerializeResource", Origin.STARTUP, False, "A resource cannot be serialised."),
    (Status.CANNOT_DESERIALIZE_RESOURCE, "CannotDeserializeResource", Origin.STARTUP, False, "A resource cannot be deserialised."),
    (Status.CANNOT_READ_FILE, "CannotReadFile", Origin.WIRE_INTERNAL, False, "A file cannot be opened or read."),
    (Status.CANNOT_READ_FILE_METADATA, "CannotReadFileMetadata", Origin.WIRE_INTERNAL, False, "The metadata of a file cannot be read."),
    (Status.CANNOT_SEEK_FILE, "CannotSeekFile", Origin.NEVER, False, "The position within a file cannot be changed."),
    (Status.CANNOT_APPEND_TO_FILE, "CannotAppendToFile", Origin.WIRE_INTERNAL, False, "A file cannot be appended to."),
    (Status.CANNOT_WRITE_TO_FILE, "CannotWriteToFile", Origin.WIRE_INTERNAL, False, "A file cannot be written."),
    (Status.CANNOT_OVERWRITE_FILE, "CannotOverwriteFile", Origin.WIRE_INTERNAL, False, "A file cannot be overwritten."),
    (Status.CANNOT_DELETE_FILE, "CannotDeleteFile", Origin.WIRE_INTERNAL, False, "A file cannot be deleted."),
    (Status.CANNOT_SYNC_FILE, "CannotSyncFile", Origin.WIRE_INTERNAL, False, "A file cannot be synced to its device."),
    (Status.CANNOT_READ_INDEX_OFFSET, "CannotReadIndexOffset", Origin.NEVER, False, "The offset of an index entry cannot be read."),
    (Status.CANNOT_READ_INDEX_POSITION, "CannotReadIndexPosition", Origin.WIRE, False, "An index position of a send request is smaller than the one before it."),
    (Status.CANNOT_READ_INDEX_TIMESTAMP, "CannotReadIndexTimestamp", Origin.NEVER, False, "The timestamp of an index entry cannot be read."),
    (Status.TIMESTAMP_OUT_OF_RANGE, "TimestampOutOfRange", Origin.NEVER, False, "The timestamp is out of range."),
    (Status.SHARD_NOT_FOUND, "ShardNotFound", Origin.NEVER, False, "The shard does not exist."),
    (Status.SHARD_COMMUNICATION_ERROR, "ShardCommunicationError", Origin.WIRE_INTERNAL, True, "A shard inside the server did not answer."),
    (Status.CANNOT_BIND_TO_SOCKET, "CannotBindToSocket", Origin.STARTUP, False, "The listener cannot bind to its address."),
    (Status.TASK_TIMEOUT, "TaskTimeout", Origin.WIRE_INTERNAL, True, "A task inside the server took too long."),
    (Status.IO_ERROR, "IoError", Origin.WIRE_INTERNAL, False, "Input or output failed."),
    (Status.TOO_MANY_LOGIN_ATTEMPTS, "TooManyLoginAttempts", Origin.WIRE, False, "Too many logins of this user or from this address have failed; wait before the next one."),
    (Status.TOO_MANY_WAITS, "TooManyWaits", Origin.WIRE, True, "Too many partitions are waited for or watched already."),
    (Status.TOO_MANY_CONSUMER_GROUPS, "TooManyConsumerGroups", Origin.WIRE, False, "The topic has 10,000 consumer groups, or 5,000 that the user has created: delete some."),
    (Status.TOO_MANY_CONSUMERS, "TooManyConsumers", Origin.WIRE, False, "As many consumers have stored offsets in the partition as are allowed: delete some, or read as a consumer group."),
    (Status.OUTCOME_UNKNOWN, "OutcomeUnknown", Origin.WIRE, False, "The result of the command did not become known in time: it may have been applied. Check before you repeat it."),
    (Status.TOO_MANY_CHANGES, "TooManyChanges", Origin.WIRE, True, "The user has changed too many access tokens, consumer groups and pins in a short time; nothing was done: wait before the next change."),
    (Status.TOO_MANY_CONNECTIONS, "TooManyConnections", Origin.WIRE, True, "The user has as many connections as one user may have: close some."),
    (Status.NODE_NOT_FOUND, "NodeNotFound", Origin.WIRE, False, "The partition node does not exist."),
    (Status.NODE_REPLACED, "NodeReplaced", Origin.WIRE, False, "A later run of the partition node has registered; this one must stop."),
    (Status.NODE_IN_USE, "NodeInUse", Origin.WIRE, False, "The partition node holds replicas: move them, or give them up for lost."),
    (Status.TOO_MANY_NODES, "TooManyNodes", Origin.WIRE, False, "No further partition node can be registered."),
    (Status.INVALID_PLACEMENT, "InvalidPlacement", Origin.WIRE, False, "The nodes chosen for a partition are too many or named twice, or one of them is silent or draining and has no replica yet."),
    (Status.PARTITION_UNAVAILABLE, "PartitionUnavailable", Origin.WIRE, True, "No node that has the partition can be reached; nothing was done."),
    (Status.PARTITION_ELSEWHERE, "PartitionElsewhere", Origin.WIRE, True, "The partition is on another node."),
    (Status.INVALID_TICKET, "InvalidTicket", Origin.WIRE, False, "The ticket is forged, too old or malformed, or does not allow what it was presented for."),
    (Status.TRANSACTION_FENCED, "TransactionFenced", Origin.WIRE, False, "Another query writes in the name of the transaction; nothing was done."),
    (Status.STAGE_EXPIRED, "StageExpired", Origin.WIRE, False, "Staged messages were not committed in time; nothing was done."),
    (Status.STAGE_ABORTED, "StageAborted", Origin.WIRE, False, "Staged messages were given up before; nothing was done."),
    (Status.STAGE_IN_USE, "StageInUse", Origin.WIRE, False, "Staged messages are named twice, or are part of another commit; nothing was done."),
    (Status.STAGE_NOT_FOUND, "StageNotFound", Origin.WIRE, False, "The partition has no stage of this id: it was dropped, or never begun."),
    (Status.INVALID_STAGE_CHUNK, "InvalidStageChunk", Origin.WIRE, False, "A part of staged messages is missing before this one, or the stage is complete already."),
    (Status.TOO_MANY_STAGES, "TooManyStages", Origin.WIRE, True, "Too many staged messages wait for their commit, to be appended or to be forgotten."),
    (Status.TOO_MANY_TRANSACTIONS, "TooManyTransactions", Origin.WIRE, False, "No further transaction can be remembered: forget some."),
    (Status.PIN_TOO_LARGE, "PinTooLarge", Origin.WIRE, False, "What is to be kept for a reader exceeds 262,144 bytes."),
    (Status.TOO_MANY_PINS, "TooManyPins", Origin.WIRE, False, "No further reader can be pinned, or the pins of the user take half of the space: unpin some."),
)
# fmt: on

REGISTRY: Mapping[Status, StatusInfo] = MappingProxyType({row[0]: StatusInfo(*row) for row in _ROWS})
"""Every defined code, ascending; success is not among them."""


def find(code: int) -> StatusInfo | None:
    """Return the registry's entry for ``code``; ``None`` for success and for codes that are not defined."""
    try:
        return REGISTRY.get(Status(code))
    except ValueError:
        return None
