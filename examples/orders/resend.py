"""Sends dead letters back to their topic, if their orders can be billed now.

It may be run again at any time: letters whose orders are billed are left out, and so are those that would come back.
"""

from __future__ import annotations

import sys

import msgspec

import headrace
from billing import DEAD_LETTERS, STREAM, Billing, UnknownArticle, parse

_PREFIX = "x-dead-letter-"
_QUIET_SECONDS = 1.0


def is_mended(letter: headrace.Message, billing: Billing) -> bool:
    """Return whether the order in a letter is not billed and can be."""
    try:
        order = parse(letter.payload)
        billing.cents_of(order)
    except (msgspec.DecodeError, UnknownArticle) as error:
        sys.stdout.write(f"still wrong: {letter.payload.decode(errors='replace')}: {error}\n")
        return False
    return not billing.is_billed(order)


def main() -> None:
    """Read all letters from the first one on, until no more arrive."""
    sent = 0
    with (
        Billing() as billing,
        headrace.connect() as client,
        client.consumer(STREAM, DEAD_LETTERS, start="first") as letters,
        client.direct_producer() as producer,
    ):
        while (batch := letters.poll(timeout=_QUIET_SECONDS)) is not None:
            for letter in batch:
                if is_mended(letter, billing):
                    headers = letter.headers or {}
                    kept = {name: value for name, value in headers.items() if not name.startswith(_PREFIX)}
                    partition = int(headers[_PREFIX + "partition"])
                    order = headrace.Outgoing(letter.payload, letter.key, partition, kept)
                    producer.send_to(STREAM, str(headers[_PREFIX + "topic"]), order)
                    sent += 1
    sys.stdout.write(f"{sent} orders were sent again\n")


if __name__ == "__main__":
    main()
