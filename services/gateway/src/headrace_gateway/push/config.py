"""Settings of the push to browsers."""

from __future__ import annotations

from typing import Annotated

from headrace_settings import Between, Duration, Section, Size


class PushConfig(Section):
    """`push`: messages for browsers, over a WebSocket at `/ws` of the HTTP interface."""

    enabled: bool = True
    """Serve it."""
    allowed_origins: tuple[str, ...] = ()
    """Origins whose pages may connect, such as `https://shop.example`, beside pages of this server itself; `*` first
    in the list stands for any. Programs that are no browsers name no origin, and may connect."""
    login_timeout: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 h"))] = Duration.parse(
        "10 s"
    )
    """A connection on which nobody has logged in after so long is closed."""
    heartbeat_interval: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 h"))] = Duration.parse(
        "15 s"
    )
    """After so much silence the server says something; a client that is silent for twice as long is disconnected."""
    partitions_interval: Annotated[Duration, Between(Duration.parse("10 ms"), Duration.parse("1 h"))] = Duration.parse(
        "1 s"
    )
    """How often to look for new partitions of topics that are followed."""
    compression: bool = False
    """Offer permessage-deflate, which costs time and memory for each connection."""
    max_message_size: Annotated[Size, Between(Size.parse("1 KiB"), Size.parse("512 MiB"))] = Size.parse("4 MiB")
    """How large one message of a client may be; a larger one closes its connection."""
    max_messages_per_second: Annotated[int, Between(0, 1_000_000)] = 1000
    """How many messages a client may send, twice as many at once after a pause; 0 is no limit."""
    max_connections: Annotated[int, Between(1, 1_000_000)] = 10_000
    """How many clients may be connected at a time."""
    max_connections_per_user: Annotated[int, Between(1, 1_000_000)] = 1000
    """How many of them may be of one user."""
    max_connections_per_address: Annotated[int, Between(1, 1_000_000)] = 1000
    """How many of them may come from one address."""
    max_subscriptions: Annotated[int, Between(1, 1_000_000)] = 100
    """How many subscriptions one connection may have."""
    max_partitions: Annotated[int, Between(1, 1_000_000)] = 1000
    """How many partitions they may have together."""
    max_credit_messages: Annotated[int, Between(1, 2**31)] = 100_000
    """How many messages of credit a subscription may have; what goes beyond is not counted."""
    max_credit_size: Annotated[Size, Between(Size.parse("1 KiB"), Size.parse("1 TiB"))] = Size.parse("64 MiB")
    """How many bytes of credit a subscription may have; what goes beyond is not counted."""
    batch_size: Annotated[Size, Between(Size.parse("1 KiB"), Size.parse("64 MiB"))] = Size.parse("128 KiB")
    """How much is read from a partition at a time, roughly: more if one message is larger."""
    cache_size: Annotated[Size, Between(Size(0), Size.parse("1 TiB"))] = Size.parse("64 MiB")
    """How much of what was read last is kept, so that one read serves all subscriptions that stand at one place."""
