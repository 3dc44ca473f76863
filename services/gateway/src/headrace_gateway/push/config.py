"""Settings of the push to browsers."""

from __future__ import annotations

from typing import Annotated

from headrace_settings import Between, Duration, Section, SharedBy, Size


class PushConfig(Section):
    """`push`: push of messages to browsers, over a WebSocket at `/ws` of the HTTP API."""

    enabled: bool = True
    """Serve the push endpoint."""
    allowed_origins: tuple[str, ...] = ()
    """Origins whose pages may connect, such as `https://shop.example`, in addition to pages of this server; `*` first
    in the list allows any. Programs other than browsers send no origin, and may connect.
    """
    login_timeout: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 h"))] = Duration.parse(
        "10 s"
    )
    """Time after which a connection without a login is closed."""
    heartbeat_interval: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 h"))] = Duration.parse(
        "15 s"
    )
    """Time of silence after which the server sends a heartbeat; a client that is silent for twice as long is
    disconnected.
    """
    partitions_interval: Annotated[Duration, Between(Duration.parse("10 ms"), Duration.parse("1 h"))] = Duration.parse(
        "1 s"
    )
    """Interval at which subscribed topics are checked for new partitions."""
    compression: bool = False
    """Offer permessage-deflate compression, which costs CPU time and memory for each connection."""
    max_message_size: Annotated[Size, Between(Size.parse("1 KiB"), Size.parse("512 MiB")), SharedBy.EACH_REQUEST] = (
        Size.parse("4 MiB")
    )
    """Maximum size of one message of a client; a larger one closes its connection."""
    max_messages_per_second: Annotated[int, Between(0, 1_000_000), SharedBy.EACH_CONNECTION] = 1000
    """Maximum number of messages per second from one client, with bursts of twice as many after a pause; 0 means
    unlimited.
    """
    max_connections: Annotated[int, Between(1, 1_000_000), SharedBy.USERS] = 10_000
    """Maximum number of connected clients."""
    max_connections_per_user: Annotated[int, Between(1, 1_000_000), SharedBy.EACH_USER] = 1000
    """Maximum number of connections of one user."""
    max_connections_per_address: Annotated[int, Between(1, 1_000_000), SharedBy.EACH_ADDRESS] = 1000
    """Maximum number of connections from one address."""
    max_subscriptions: Annotated[int, Between(1, 1_000_000), SharedBy.EACH_CONNECTION] = 100
    """Maximum number of subscriptions of one connection."""
    max_partitions: Annotated[int, Between(1, 1_000_000), SharedBy.EACH_CONNECTION] = 1000
    """Maximum number of partitions of all subscriptions of one connection."""
    max_credit_messages: Annotated[int, Between(1, 2**31), SharedBy.EACH_SUBSCRIPTION] = 100_000
    """Maximum credit of a subscription in messages; credit beyond it is discarded."""
    max_credit_size: Annotated[Size, Between(Size.parse("1 KiB"), Size.parse("1 TiB")), SharedBy.EACH_SUBSCRIPTION] = (
        Size.parse("64 MiB")
    )
    """Maximum credit of a subscription in bytes; credit beyond it is discarded."""
    batch_size: Annotated[Size, Between(Size.parse("1 KiB"), Size.parse("64 MiB"))] = Size.parse("128 KiB")
    """Approximate size of one read from a partition; a single larger message exceeds it."""
    cache_size: Annotated[Size, Between(Size(0), Size.parse("1 TiB"))] = Size.parse("64 MiB")
    """Size of the cache of recently read batches, by which one read serves all subscriptions at the same position."""
