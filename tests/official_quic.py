"""The official Python client over QUIC, by a workaround.

Its QUIC endpoint can be created only on a thread of its own runtime, and no function of release 0.8.0 calls the
constructor there: in an ordinary program the constructor fails with `CannotCreateEndpoint`. The runtime does call the
message callback of a consumer. Therefore a first client consumes one message over TCP, and its callback creates the
clients over QUIC.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable

from apache_iggy import AutoCommit, IggyClient, PollingStrategy, ReceiveMessage, SendMessage


async def quic_clients(other_listener: str, connection_string: str, count: int = 1) -> list[IggyClient]:
    """Create clients that are not connected yet.

    Args:
        `other_listener`: Connection string of the first client; its stream for this purpose is not deleted.
        connection_string: Connection string of the QUIC clients.
        count: Number of clients.
    """
    first = IggyClient.from_connection_string(other_listener)
    await first.connect()
    stream, made, done = f"quic-{secrets.token_hex(4)}", [], asyncio.Event()
    loop = asyncio.get_running_loop()

    def make(_message: ReceiveMessage) -> Awaitable[None]:
        made.extend(IggyClient.from_connection_string(connection_string) for _ in range(count - len(made)))
        loop.call_soon_threadsafe(done.set)
        return asyncio.sleep(0)

    await first.create_stream(stream)
    await first.create_topic(stream, "t", 1)
    await first.send_messages(stream, "t", 0, [SendMessage("now")])
    consumer = await first.consumer_group(
        "g", stream, "t", 0, PollingStrategy.Next(), 1, auto_commit=AutoCommit.Disabled()
    )
    await asyncio.wait_for(consumer.consume_messages(make, done), 20)
    return made
