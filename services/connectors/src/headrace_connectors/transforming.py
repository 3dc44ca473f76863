"""Application of transforms, the same for sources and sinks."""

from __future__ import annotations

from collections.abc import Sequence

from headrace_connectors.contract import Record, Transform


def transformed(record: Record, transforms: Sequence[Transform]) -> Sequence[Record]:
    """Return what the transforms make of a record: itself, others in their order, or nothing.

    Raises:
        InvalidRecord: It cannot be transformed.
    """
    records: Sequence[Record] = (record,)
    for transform in transforms:
        records = [made for one in records for made in _applied(transform, one)]
    return records


def _applied(transform: Transform, record: Record) -> Sequence[Record]:
    made = transform.apply(record)
    if made is None:
        return ()
    return (made,) if isinstance(made, Record) else made
