"""Commands of the binary protocol. Made by proto/generate_commands.py from proto/commands.toml."""
# ruff: noqa: E501

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final

EXTENSIONS_FROM: Final = 10_000
"""The first code of the commands that the Iggy protocol (0.8) does not have."""


class Attribute(StrEnum):
    """Property of a command."""

    TICKETS = "tickets"
    """Holders of a ticket may send it; if it names a consumer, only one outside of groups."""
    CARRIES_MESSAGES = "carries-messages"
    """The payload has the limit of messages instead of that of other requests."""
    WHILE_WATCHING = "while-watching"
    """Allowed while the connection watches partitions."""
    STATISTICS = "statistics"
    """The response contains statistics, which a gateway gathers from the nodes first."""
    MAY_BE_MISSING = "may-be-missing"
    """The response has an empty payload if the object does not exist."""
    AUDITED = "audited"
    """The audit trail records it with its caller."""
    BINARY_ONLY = "binary-only"
    """No other API has an equivalent."""


class ServedBy(StrEnum):
    """Servers that announce and serve a command."""

    ALL = "all"
    """Every server."""
    PARTITION_NODES = "partition-nodes"
    """Partition nodes, which accept tickets."""
    GATEWAYS = "gateways"
    """Servers at which users log in: gateways and embedded servers."""
    TICKET_ISSUERS = "ticket-issuers"
    """Gateways and embedded servers that have a key to sign tickets."""


class CommandCode(IntEnum):
    """The number of a command. A peer may send numbers that are not defined here."""

    PING = 1
    """Heartbeat."""
    GET_STATS = 10
    """Statistics of the server."""
    GET_SNAPSHOT = 11
    """A diagnostics archive."""
    GET_CLUSTER_METADATA = 12
    """The nodes of the cluster."""
    GET_ME = 20
    """Details of the requesting connection."""
    GET_CLIENT = 21
    """One connection."""
    GET_CLIENTS = 22
    """All connections."""
    GET_USER = 31
    """One user."""
    GET_USERS = 32
    """All users."""
    CREATE_USER = 33
    """Create a user."""
    DELETE_USER = 34
    """Delete a user."""
    UPDATE_USER = 35
    """Rename a user or change its status."""
    UPDATE_PERMISSIONS = 36
    """Replace or remove the permissions of a user."""
    CHANGE_PASSWORD = 37
    """Change a password."""
    LOGIN_USER = 38
    """Log in with a password."""
    LOGOUT_USER = 39
    """Log out; the connection stays."""
    GET_PERSONAL_ACCESS_TOKENS = 41
    """The access tokens of the caller."""
    CREATE_PERSONAL_ACCESS_TOKEN = 42
    """Create an access token for the caller."""
    DELETE_PERSONAL_ACCESS_TOKEN = 43
    """Delete an access token of the caller."""
    LOGIN_WITH_PERSONAL_ACCESS_TOKEN = 44
    """Log in with an access token."""
    POLL_MESSAGES = 100
    """Read messages."""
    SEND_MESSAGES = 101
    """Append messages."""
    FLUSH_UNSAVED_BUFFER = 102
    """Write the buffered messages of a partition."""
    GET_CONSUMER_OFFSET = 120
    """The offset stored for a consumer."""
    STORE_CONSUMER_OFFSET = 121
    """Store an offset for a consumer."""
    DELETE_CONSUMER_OFFSET = 122
    """Delete the offset stored for a consumer."""
    GET_STREAM = 200
    """One stream with its topics."""
    GET_STREAMS = 201
    """All streams."""
    CREATE_STREAM = 202
    """Create a stream."""
    DELETE_STREAM = 203
    """Delete a stream."""
    UPDATE_STREAM = 204
    """Rename a stream."""
    PURGE_STREAM = 205
    """Drop the messages of every topic of a stream."""
    GET_TOPIC = 300
    """One topic with its partitions."""
    GET_TOPICS = 301
    """All topics of a stream."""
    CREATE_TOPIC = 302
    """Create a topic."""
    DELETE_TOPIC = 303
    """Delete a topic."""
    UPDATE_TOPIC = 304
    """Replace the settings of a topic."""
    PURGE_TOPIC = 305
    """Drop the messages of a topic."""
    CREATE_PARTITIONS = 402
    """Append partitions to a topic."""
    DELETE_PARTITIONS = 403
    """Remove the highest-numbered partitions of a topic."""
    DELETE_SEGMENTS = 503
    """Remove the oldest sealed segments of a partition."""
    GET_CONSUMER_GROUP = 600
    """One consumer group with its members."""
    GET_CONSUMER_GROUPS = 601
    """All consumer groups of a topic."""
    CREATE_CONSUMER_GROUP = 602
    """Create a consumer group."""
    DELETE_CONSUMER_GROUP = 603
    """Delete a consumer group."""
    JOIN_CONSUMER_GROUP = 604
    """Make this connection a member of a group."""
    LEAVE_CONSUMER_GROUP = 605
    """End this connection's membership of a group."""
    CAPABILITIES = 10000
    """Extensions that the server supports."""
    WAIT_MESSAGES = 10001
    """Read messages, and wait for them if necessary."""
    WATCH_PARTITIONS = 10002
    """Start or stop notifications about changes of partitions."""
    SET_TRACE_CONTEXT = 10003
    """Set the trace context of the next request."""
    DISCONNECT_CLIENT = 10004
    """Close the connection of a client."""
    READ_MESSAGES = 10005
    """Read messages, wait for them, and report the range that was removed before it could be read."""
    DESCRIBE_PARTITIONS = 10006
    """State and location of the partitions of a topic."""
    EXPLAIN_REFUSALS = 10007
    """Include explanations in error responses from now on."""
    REPORT_OFFSETS = 10008
    """Include partition and offset in responses to batches from now on."""
    GET_MEMBERSHIP = 10009
    """The partitions of this connection as a member of a group; counts as a heartbeat."""
    OPEN_LINK = 10010
    """Turn the connection into a link between a gateway and a partition node."""
    LOGIN_WITH_TICKET = 10011
    """Log in at a partition node."""
    ISSUE_TICKET = 10012
    """Issue a ticket for a topic."""
    STAGE_MESSAGES = 10020
    """Store messages that stay invisible until they are committed."""
    COMMIT_TRANSACTION = 10021
    """Commit a transaction: make staged messages part of their partitions."""
    ABORT_TRANSACTION = 10022
    """Abort a transaction: discard staged messages."""
    GET_TRANSACTION = 10023
    """Last commit under a transaction name."""
    PIN_READER = 10024
    """Pin a value for the readers with one name."""
    UNPIN_READER = 10025
    """Delete the value pinned for readers."""
    PLAN_RANGE = 10026
    """Split a range of messages."""
    DELETE_TRANSACTION = 10027
    """Delete the last commit under a transaction name."""
    GET_QUOTAS = 10030
    """The quotas of the users and topics that the caller may read."""
    GET_USER_QUOTA = 10031
    """The quota of a user."""
    SET_USER_QUOTA = 10032
    """Replace or remove the quota of a user."""
    GET_TOPIC_QUOTA = 10033
    """The quota of a topic."""
    SET_TOPIC_QUOTA = 10034
    """Replace or remove the quota of a topic."""

    @property
    def is_extension(self) -> bool:
        """Return whether the Iggy protocol (0.8) does not have the command."""
        return self >= EXTENSIONS_FROM


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """One entry of the registry.

    Attributes:
        code: The code.
        name: The name in ``CamelCase``, unique.
        permission: The permission that allows the command; ``login`` if any user may send it, ``none`` if no login is
            needed.
        attributes: Properties of the command.
        served_by: Servers that announce and serve the command.
    """

    code: CommandCode
    name: str
    permission: str
    attributes: frozenset[Attribute]
    served_by: ServedBy

    @property
    def is_public(self) -> bool:
        """Return whether the command needs no login."""
        return self.permission == "none"


# fmt: off
_ROWS = (
    (CommandCode.PING, "Ping", "none", (Attribute.WHILE_WATCHING,), ServedBy.ALL),
    (CommandCode.GET_STATS, "GetStats", "server", (Attribute.STATISTICS,), ServedBy.ALL),
    (CommandCode.GET_SNAPSHOT, "GetSnapshot", "server", (), ServedBy.ALL),
    (CommandCode.GET_CLUSTER_METADATA, "GetClusterMetadata", "login", (), ServedBy.ALL),
    (CommandCode.GET_ME, "GetMe", "login", (), ServedBy.ALL),
    (CommandCode.GET_CLIENT, "GetClient", "server", (Attribute.MAY_BE_MISSING,), ServedBy.ALL),
    (CommandCode.GET_CLIENTS, "GetClients", "server", (), ServedBy.ALL),
    (CommandCode.GET_USER, "GetUser", "users read or oneself", (Attribute.MAY_BE_MISSING,), ServedBy.ALL),
    (CommandCode.GET_USERS, "GetUsers", "users read", (), ServedBy.ALL),
    (CommandCode.CREATE_USER, "CreateUser", "users manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.DELETE_USER, "DeleteUser", "users manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.UPDATE_USER, "UpdateUser", "users manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.UPDATE_PERMISSIONS, "UpdatePermissions", "users manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.CHANGE_PASSWORD, "ChangePassword", "users manage or oneself", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.LOGIN_USER, "LoginUser", "none", (), ServedBy.ALL),
    (CommandCode.LOGOUT_USER, "LogoutUser", "login", (Attribute.TICKETS,), ServedBy.ALL),
    (CommandCode.GET_PERSONAL_ACCESS_TOKENS, "GetPersonalAccessTokens", "login", (), ServedBy.ALL),
    (CommandCode.CREATE_PERSONAL_ACCESS_TOKEN, "CreatePersonalAccessToken", "login", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.DELETE_PERSONAL_ACCESS_TOKEN, "DeletePersonalAccessToken", "login", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, "LoginWithPersonalAccessToken", "none", (), ServedBy.ALL),
    (CommandCode.POLL_MESSAGES, "PollMessages", "poll", (Attribute.TICKETS,), ServedBy.ALL),
    (CommandCode.SEND_MESSAGES, "SendMessages", "send", (Attribute.TICKETS, Attribute.CARRIES_MESSAGES,), ServedBy.ALL),
    (CommandCode.FLUSH_UNSAVED_BUFFER, "FlushUnsavedBuffer", "send", (Attribute.TICKETS,), ServedBy.ALL),
    (CommandCode.GET_CONSUMER_OFFSET, "GetConsumerOffset", "poll", (Attribute.MAY_BE_MISSING, Attribute.TICKETS,), ServedBy.ALL),
    (CommandCode.STORE_CONSUMER_OFFSET, "StoreConsumerOffset", "poll", (Attribute.TICKETS,), ServedBy.ALL),
    (CommandCode.DELETE_CONSUMER_OFFSET, "DeleteConsumerOffset", "poll", (Attribute.TICKETS,), ServedBy.ALL),
    (CommandCode.GET_STREAM, "GetStream", "stream read", (Attribute.MAY_BE_MISSING, Attribute.STATISTICS,), ServedBy.ALL),
    (CommandCode.GET_STREAMS, "GetStreams", "streams list", (Attribute.STATISTICS,), ServedBy.ALL),
    (CommandCode.CREATE_STREAM, "CreateStream", "stream create", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.DELETE_STREAM, "DeleteStream", "stream manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.UPDATE_STREAM, "UpdateStream", "stream manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.PURGE_STREAM, "PurgeStream", "stream manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.GET_TOPIC, "GetTopic", "topic read", (Attribute.MAY_BE_MISSING, Attribute.STATISTICS,), ServedBy.ALL),
    (CommandCode.GET_TOPICS, "GetTopics", "topics list", (Attribute.STATISTICS,), ServedBy.ALL),
    (CommandCode.CREATE_TOPIC, "CreateTopic", "topic create", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.DELETE_TOPIC, "DeleteTopic", "topic manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.UPDATE_TOPIC, "UpdateTopic", "topic manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.PURGE_TOPIC, "PurgeTopic", "topic manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.CREATE_PARTITIONS, "CreatePartitions", "topic manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.DELETE_PARTITIONS, "DeletePartitions", "topic manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.DELETE_SEGMENTS, "DeleteSegments", "topic manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.GET_CONSUMER_GROUP, "GetConsumerGroup", "topic read", (Attribute.MAY_BE_MISSING,), ServedBy.ALL),
    (CommandCode.GET_CONSUMER_GROUPS, "GetConsumerGroups", "topic read", (), ServedBy.ALL),
    (CommandCode.CREATE_CONSUMER_GROUP, "CreateConsumerGroup", "topic read", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.DELETE_CONSUMER_GROUP, "DeleteConsumerGroup", "topic manage or owner", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.JOIN_CONSUMER_GROUP, "JoinConsumerGroup", "topic read", (), ServedBy.ALL),
    (CommandCode.LEAVE_CONSUMER_GROUP, "LeaveConsumerGroup", "topic read", (), ServedBy.ALL),
    (CommandCode.CAPABILITIES, "Capabilities", "none", (Attribute.BINARY_ONLY,), ServedBy.ALL),
    (CommandCode.WAIT_MESSAGES, "WaitMessages", "poll", (Attribute.TICKETS,), ServedBy.ALL),
    (CommandCode.WATCH_PARTITIONS, "WatchPartitions", "poll", (Attribute.WHILE_WATCHING,), ServedBy.ALL),
    (CommandCode.SET_TRACE_CONTEXT, "SetTraceContext", "login", (Attribute.TICKETS,), ServedBy.ALL),
    (CommandCode.DISCONNECT_CLIENT, "DisconnectClient", "server manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.READ_MESSAGES, "ReadMessages", "poll", (Attribute.TICKETS,), ServedBy.ALL),
    (CommandCode.DESCRIBE_PARTITIONS, "DescribePartitions", "topic read", (Attribute.STATISTICS,), ServedBy.ALL),
    (CommandCode.EXPLAIN_REFUSALS, "ExplainRefusals", "none", (), ServedBy.ALL),
    (CommandCode.REPORT_OFFSETS, "ReportOffsets", "none", (Attribute.BINARY_ONLY,), ServedBy.ALL),
    (CommandCode.GET_MEMBERSHIP, "GetMembership", "poll", (Attribute.BINARY_ONLY,), ServedBy.ALL),
    (CommandCode.OPEN_LINK, "OpenLink", "none", (Attribute.BINARY_ONLY,), ServedBy.PARTITION_NODES),
    (CommandCode.LOGIN_WITH_TICKET, "LoginWithTicket", "none", (Attribute.BINARY_ONLY,), ServedBy.PARTITION_NODES),
    (CommandCode.ISSUE_TICKET, "IssueTicket", "poll or send", (), ServedBy.TICKET_ISSUERS),
    (CommandCode.STAGE_MESSAGES, "StageMessages", "send", (Attribute.TICKETS, Attribute.CARRIES_MESSAGES, Attribute.BINARY_ONLY,), ServedBy.ALL),
    (CommandCode.COMMIT_TRANSACTION, "CommitTransaction", "send", (), ServedBy.GATEWAYS),
    (CommandCode.ABORT_TRANSACTION, "AbortTransaction", "send", (), ServedBy.GATEWAYS),
    (CommandCode.GET_TRANSACTION, "GetTransaction", "stream read", (Attribute.MAY_BE_MISSING,), ServedBy.GATEWAYS),
    (CommandCode.PIN_READER, "PinReader", "poll", (), ServedBy.GATEWAYS),
    (CommandCode.UNPIN_READER, "UnpinReader", "poll", (), ServedBy.GATEWAYS),
    (CommandCode.PLAN_RANGE, "PlanRange", "poll", (Attribute.TICKETS, Attribute.BINARY_ONLY,), ServedBy.ALL),
    (CommandCode.DELETE_TRANSACTION, "DeleteTransaction", "stream manage", (Attribute.AUDITED,), ServedBy.GATEWAYS),
    (CommandCode.GET_QUOTAS, "GetQuotas", "login", (), ServedBy.ALL),
    (CommandCode.GET_USER_QUOTA, "GetUserQuota", "users read or oneself", (Attribute.MAY_BE_MISSING,), ServedBy.ALL),
    (CommandCode.SET_USER_QUOTA, "SetUserQuota", "users manage", (Attribute.AUDITED,), ServedBy.ALL),
    (CommandCode.GET_TOPIC_QUOTA, "GetTopicQuota", "topic read", (Attribute.MAY_BE_MISSING,), ServedBy.ALL),
    (CommandCode.SET_TOPIC_QUOTA, "SetTopicQuota", "topic manage", (Attribute.AUDITED,), ServedBy.ALL),
)
# fmt: on

REGISTRY: Mapping[CommandCode, CommandInfo] = MappingProxyType(
    {row[0]: CommandInfo(row[0], row[1], row[2], frozenset(row[3]), row[4]) for row in _ROWS}
)
"""Every command, by ascending code."""


def commands_with(attribute: Attribute) -> frozenset[CommandCode]:
    """Return the commands that have this attribute."""
    return frozenset(code for code, info in REGISTRY.items() if attribute in info.attributes)
