"""Numbers of the binary protocol that tests use: commands from the registry, all others written down by hand."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from headrace_proto.commands import REGISTRY, CommandCode, ServedBy

Code = CommandCode
"""Command codes."""

ANNOUNCED_EXTENSIONS: Final = tuple(
    code for code, info in REGISTRY.items() if code.is_extension and info.served_by is not ServedBy.PARTITION_NODES
)
"""Extensions that a gateway or embedded server announces, ascending."""


class Status(IntEnum):
    """Status codes of responses."""

    OK = 0
    INVALID_COMMAND = 3
    INVALID_FORMAT = 4
    INVALID_IDENTIFIER = 6
    DISCONNECTED = 8
    RESOURCE_NOT_FOUND = 20
    STALE_CLIENT = 30
    UNAUTHENTICATED = 40
    UNAUTHORIZED = 41
    INVALID_CREDENTIALS = 42
    INVALID_USERNAME = 43
    INVALID_PASSWORD = 44
    USER_ALREADY_EXISTS = 46
    USER_INACTIVE = 47
    CANNOT_DELETE_USER = 48
    CANNOT_CHANGE_PERMISSIONS = 49
    INVALID_TOKEN_NAME = 50
    TOKEN_ALREADY_EXISTS = 51
    TOKENS_LIMIT_REACHED = 52
    INVALID_TOKEN = 53
    TOKEN_EXPIRED = 54
    INVALID_ACCESS_TOKEN = 78
    INVALID_CLIENT_ID = 101
    STREAM_NOT_FOUND = 1009
    STREAM_NAME_ALREADY_EXISTS = 1012
    INVALID_TOPIC_SIZE = 1019
    TOPIC_NOT_FOUND = 2010
    TOPIC_NAME_ALREADY_EXISTS = 2013
    TOO_MANY_PARTITIONS = 2015
    INVALID_PARTITIONS_COUNT = 2019
    CANNOT_READ_PARTITIONS = 3004
    PARTITION_NOT_FOUND = 3007
    CONSUMER_OFFSET_NOT_FOUND = 3021
    NOT_RESOLVED_CONSUMER = 3022
    INVALID_MESSAGES_COUNT = 4009
    TOO_BIG_USER_HEADERS = 4017
    TOO_BIG_MESSAGE_PAYLOAD = 4022
    INVALID_MESSAGE_CHECKSUM = 4027
    NON_ZERO_OFFSET = 4031
    NON_ZERO_TIMESTAMP = 4032
    MISSING_INDEX = 4033
    INVALID_MESSAGES_SIZE = 4036
    INVALID_OFFSET = 4100
    INVALID_RESERVED_FIELD = 4101
    GROUP_NOT_FOUND = 5000
    GROUP_NAME_ALREADY_EXISTS = 5004
    GROUP_MEMBER_NOT_FOUND = 5006
    CANNOT_APPEND_TO_FILE = 10005
    CANNOT_WRITE_TO_FILE = 10006
    CANNOT_READ_INDEX_POSITION = 10011
    TOO_MANY_CONSUMERS = 20003
    TOO_MANY_CONNECTIONS = 20006


class Strategy(IntEnum):
    """Start position of a poll."""

    OFFSET = 1
    TIMESTAMP = 2
    FIRST = 3
    LAST = 4
    NEXT = 5
