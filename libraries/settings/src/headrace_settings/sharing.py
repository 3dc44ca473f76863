"""The answer of each limit to the question who shares it."""

from __future__ import annotations

from enum import StrEnum


class SharedBy(StrEnum):
    """Owners that a limit has in common, in the words of the reference; an annotation of its field."""

    EACH_REQUEST = "nothing, each request or message has its own"
    EACH_CONNECTION = "the requests of one connection"
    EACH_SUBSCRIPTION = "the messages of one subscription"
    EACH_USER = "the requests of one user"
    EACH_ADDRESS = "the clients of one address"
    EACH_TOPIC = "the messages of one topic"
    EACH_LINK = "the requests of one link between services"
    USERS = "all users, of whom one has at most half"
    CLIENTS = "all clients, of which one address has at most half"
    ALL = "all clients, without a part for each"
    SERVER = "nothing of users, it is the server's own"
