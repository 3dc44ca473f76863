"""Rules for transforms: the same record gives the same result, however often it is tried."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final

from headrace_connectors.conformance.cases import TransformCase
from headrace_connectors.conformance.rules import Violation, rule
from headrace_connectors.contract import InvalidRecord, Record, Transform


async def _opened(case: TransformCase) -> Transform:
    transform = case.create()
    await transform.open()
    return transform


def _applied(transform: Transform, record: Record) -> Any:
    """Return what a transform makes of a record, in a form that can be compared."""
    try:
        made = transform.apply(record)
    except InvalidRecord as error:
        return f"InvalidRecord: {error}"
    except Exception as error:
        raise Violation(f"{record} fails with {type(error).__name__}, not with InvalidRecord: {error}") from error
    if made is None:
        return []
    found: Any = [made] if isinstance(made, Record) else made
    if not isinstance(found, Sequence) or not all(isinstance(one, Record) for one in found):
        raise Violation(f"apply returns {made!r}, which is no record, no list of records, and not None")
    return copy.deepcopy(list(found))


@rule
async def every_record_has_a_result(case: TransformCase) -> None:
    """A record gives a record, a list of records, or None; one that cannot be transformed is an InvalidRecord."""
    transform = await _opened(case)
    for record in case.records():
        _applied(transform, record)


@rule
async def payload_is_not_changed_in_place(case: TransformCase) -> None:
    """Payload and headers of the given record stay as they are: a source may hand the same record over again."""
    transform = await _opened(case)
    for record in case.records():
        before = copy.deepcopy((record.payload, record.headers, record.id))
        _applied(transform, record)
        if (record.payload, record.headers, record.id) != before:
            raise Violation(f"the given record was {before}, and is changed to {record}: make a new one")


@rule
async def result_depends_on_the_record_alone(case: TransformCase) -> None:
    """The same record gives the same result when it is tried again, after others, and by another instance."""
    first, second = await _opened(case), await _opened(case)
    records = list(case.records())
    expected = [_applied(first, copy.deepcopy(record)) for record in records]
    for transform, what in ((first, "again"), (second, "by another instance")):
        for record, result in reversed(list(zip(records, expected, strict=True))):
            for _ in range(2):
                if (found := _applied(transform, record)) != result:
                    raise Violation(f"{record} gives {result} at first, and {found} {what}")


RULES: Final = (every_record_has_a_result, payload_is_not_changed_in_place, result_depends_on_the_record_alone)
