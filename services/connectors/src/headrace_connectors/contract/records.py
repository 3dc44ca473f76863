"""Records on their way from a source to topics."""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

import msgspec

HeaderValue = bool | int | float | str | bytes
"""Value of a user header."""
Headers = dict[str, HeaderValue]
"""User headers."""
HEADER_BYTES_MAX: Final = 255
"""Size of the name of a user header, and of its value."""


class Destination(NamedTuple):
    """Destination of a record.

    Examples:
        >>> Destination("shop", "orders", key=b"anna").topic
        'orders'
    """

    stream: str
    topic: str
    key: bytes | None = None
    """Records with the same key go to the same partition, in their order; None: to any partition."""
    partition: int | None = None
    """Id of the partition, in place of the one that the key selects."""


class Record(msgspec.Struct):
    """One record: what a source polls, what transforms change, and what a sink writes.

    Examples:
        >>> Record({"id": 7}, table="public.orders").payload["id"]
        7
    """

    payload: Any
    """A JSON-like value, which the codec encodes, or bytes as they are."""
    id: int = 0
    """Number of 128 bits that is the same when the record is read again, so that readers can drop repetitions; 0: none.
    `stable_id` makes one."""
    headers: Headers | None = None
    destination: Destination | None = None
    """Destination of the record; None: the topic of the connector, or the defaults of its routing."""
    table: str | None = None
    """Table or collection that the record comes from, for `routing.by_table`."""
    problem: str | None = None
    """Reason why the source could not read it, with its place: it is invalid, and `payload` is what there is of it."""


def stable_id(*parts: object) -> int:
    """Return an id of 128 bits for a record that is identified by these values, such as table, key and position.

    Examples:
        >>> stable_id("orders", 7) == stable_id("orders", 7) != stable_id("orders", 8)
        True
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = str(part).encode()
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    # 0 means that there is no id.
    return int.from_bytes(digest.digest(), "little") or 1
