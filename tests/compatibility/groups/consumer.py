"""Consumer process that joins a consumer group through the official client and records every message it receives.

    python -m tests.compatibility.groups.consumer ADDRESS STREAM GROUP FILE USERNAME PASSWORD

One line per message: time (monotonic clock, shared by all processes), partition, offset. SIGTERM ends the process after
the current message.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import signal
import sys
import time

from apache_iggy import AutoCommit, AutoCommitAfter, IggyClient, PollingStrategy, ReceiveMessage


async def consume(address: str, stream: str, group: str, path: str, username: str, password: str) -> None:
    """Consume until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    # A connection string lets the client log in and join again after a lost connection.
    client = IggyClient.from_connection_string(f"iggy+tcp://{username}:{password}@{address}")
    await client.connect()
    consumer = await client.consumer_group(
        group,
        stream,
        "t",
        polling_strategy=PollingStrategy.Next(),
        batch_length=20,
        auto_commit=AutoCommit.After(AutoCommitAfter.ConsumingEachMessage()),
        poll_interval=datetime.timedelta(milliseconds=2),
    )
    record = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def received(message: ReceiveMessage) -> None:
        line = f"{time.monotonic_ns()} {message.partition_id()} {message.offset()}\n"
        os.write(record, line.encode("ascii"))

    try:
        await consumer.consume_messages(received, stop)
    except RuntimeError:
        # A client that has reconnected raises this error when it stops.
        if not stop.is_set():
            raise


if __name__ == "__main__":
    asyncio.run(consume(*sys.argv[1:]))
    # Skip interpreter shutdown: the client's threads may abort an interpreter that ends around them.
    os._exit(0)
