"""Bills orders as a member of the group `billing`, until SIGTERM or Ctrl-C.

A batch is written in one transaction. If the table is locked, the worker tries again; an order that can never be billed
goes to the dead-letter topic, with the reason.
"""

from __future__ import annotations

import logging
import signal
import sqlite3
import sys
import threading

import msgspec

import headrace
from billing import DATABASE, DEAD_LETTERS, STREAM, TOPIC, Billing, Order, UnknownArticle, parse

ATTEMPTS = 8
_FIRST_PAUSE_SECONDS = 0.1

_stopping = threading.Event()
_log = logging.getLogger("worker")


def priced(batch: headrace.Batch, consumer: headrace.Consumer, billing: Billing) -> list[tuple[Order, int]]:
    """Return the orders of a batch with their cents. Those that cannot be billed are stored as dead letters."""
    found = []
    for message in batch:
        try:
            order = parse(message.payload)
            found.append((order, billing.cents_of(order)))
        except (msgspec.DecodeError, UnknownArticle) as error:
            # Before the transaction: after a crash between the two there are two letters, and never none.
            consumer.dead_letter(message, error)
            _log.warning("set aside: partition %d, offset %d: %s", batch.partition_id, message.offset, error)
    return found


def bill(orders: list[tuple[Order, int]], billing: Billing) -> None:
    """Write orders into the table; try again while another program has locked it.

    Raises:
        sqlite3.OperationalError: It was locked at the last attempt, too.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            billing.add(orders)
        except sqlite3.OperationalError as error:
            if attempt == ATTEMPTS or _stopping.is_set():
                raise
            _log.warning("attempt %d: %s; trying again", attempt, error)
            _stopping.wait(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
        else:
            return


def work() -> None:
    """Bill orders until a signal.

    Raises:
        sqlite3.OperationalError: The table cannot be written.
    """
    with (
        Billing() as billing,
        headrace.connect() as client,
        client.consumer(STREAM, TOPIC, group="billing", batch_messages=100, dead_letter_topic=DEAD_LETTERS) as consumer,
    ):
        _log.info("ready")
        while not _stopping.is_set():
            # The next poll declares the batch processed. After an exception it is not, and another worker gets it.
            if (batch := consumer.poll(timeout=0.5)) is not None:
                bill(priced(batch, consumer, billing), billing)
                _log.info("partition %d: done up to offset %d", batch.partition_id, batch.next_offset - 1)
        consumer.commit()


def main() -> None:
    """Run the worker."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _stopping.set())
    try:
        work()
    except sqlite3.OperationalError as error:
        sys.exit(
            f"worker.py: {DATABASE}: {error}. The last batch is not written and will be read again: "
            "start the worker again when the table can be written"
        )
    _log.info("stopped")


if __name__ == "__main__":
    main()
