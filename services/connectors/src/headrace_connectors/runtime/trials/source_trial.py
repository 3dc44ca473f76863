"""Trial of a source: one poll whose records are routed and admitted, and not stored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from headrace.sdk.direct import Outgoing, Runs
from headrace.sdk.errors import HeadraceError
from headrace_connectors.admission.table import AdmissionTable, Name
from headrace_connectors.contract import Batch, Codec, ConnectorError, Record, Source, Transform, Unavailable
from headrace_connectors.counters import Counters
from headrace_connectors.pipeline_file.pipeline import SourceSpec
from headrace_connectors.runtime.trials.fields import Seen
from headrace_connectors.state.store import LoadState
from headrace_connectors.storing.delivery import Delivery
from headrace_connectors.storing.progress import Stored

_RETRY_SECONDS = 0.2


class TriedRecord(NamedTuple):
    """A record, or one of the records that a transform has made of it."""

    outcome: Literal["sent", "dropped", "refused", "written", "invalid"]
    """Outcome of the record if the connector ran."""
    stream: str | None
    topic: str | None
    """Topic that a source sends it to, or that a sink has read it from."""
    partition: int | None
    """Partition of the message; of a source the one that its routing names, None: by key, or any."""
    key: str | None
    payload: str
    """Payload as the codec encodes it; that of the source for records that would not be sent."""
    reason: str | None
    """Reason why it would not be sent or written."""
    offset: int | None = None
    """Offset of the message that a sink has read."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Outcome for one connector."""

    key: str
    """Name of the connector."""
    plugin: str
    records: Sequence[TriedRecord] = ()
    error: str | None = None
    """Reason why the connector could not be tried."""
    new_topics: Sequence[Name] = ()
    """Topics that do not exist: those that a source would create, or that a sink reads when a source of the same file
    has created them.
    """
    kind: Literal["source", "sink"] = "source"
    warnings: Sequence[str] = ()
    """Fields that the settings name and no record has."""


async def try_source(
    spec: SourceSpec,
    store: LoadState,
    partitions_count: Callable[[Name], Awaitable[int | None]],
    *,
    records_max: int,
    seconds: float,
) -> Trial:
    """Open a source, poll it until there are records, and close it without a commit.

    Args:
        spec: The source.
        store: The states; it continues after its own.
        partitions_count: Looks up a topic; None: the topic would be created. Raises `NotCreated`.
        records_max: Maximum number of records that are looked at.
        seconds: Time for all of it.
    """
    new_topics: list[Name] = []

    async def ready(name: Name) -> int:
        found = await partitions_count(name)
        if found is None:
            new_topics.append(name)
            return spec.settings.defaults_of(*name).partitions_count
        return found

    table = AdmissionTable(spec.settings.admission, spec.settings.circuit_breaker, ready, time.monotonic)
    try:
        async with asyncio.timeout(seconds):
            records, warnings = await _tried(spec, store, table, records_max)
    except TimeoutError:
        return Trial(spec.key, spec.source.name, error=f"there were no records within {seconds:g} s")
    except (ConnectorError, HeadraceError, OSError) as error:
        return Trial(spec.key, spec.source.name, error=str(error))
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything; the other sources are tried, too
        return Trial(spec.key, spec.source.name, error=f"the plugin failed: {type(error).__name__}: {error}")
    return Trial(spec.key, spec.source.name, records, new_topics=sorted(new_topics), warnings=warnings)


async def _tried(
    spec: SourceSpec, store: LoadState, table: AdmissionTable, records_max: int
) -> tuple[list[TriedRecord], list[str]]:
    source: Source = spec.source.create()
    transforms = [transform.create() for transform in spec.transforms]
    codec = spec.codec.create()
    try:
        for transform in transforms:
            await transform.open()
        await source.open_read_only(Stored.decode(await store.load(spec.key, spec.source.name)).state)
        batch = await _records(source)
        tried: list[TriedRecord] = []
        routed = Seen.before_routing(spec.settings.routing)
        seen = [Seen.before(transform) for transform in spec.transforms]
        watched = [one for pair in zip(seen, transforms, strict=True) for one in pair]
        # One at a time, so that each has an outcome of its own.
        for record in batch.records[:records_max]:
            if record.problem is None:
                routed.apply(record)
            tried += await _outcome(record, spec, source, watched, codec, table)
        return tried, [text for one in (routed, *seen) for text in one.warnings()]
    finally:
        await source.close()
        for transform in transforms:
            await transform.close()


async def _records(source: Source) -> Batch:
    while True:
        try:
            batch = await source.poll()
        except Unavailable:
            # A source that runs tries again, too.
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        if batch is not None:
            return batch


async def _outcome(
    record: Record,
    spec: SourceSpec,
    source: Source,
    transforms: Sequence[Transform],
    codec: Codec,
    table: AdmissionTable,
) -> list[TriedRecord]:
    kept, counters = _Kept(), Counters()
    payload = _text(record.payload)
    delivery = Delivery(spec.settings, source.mode(), transforms, codec, table, kept, counters)
    try:
        await delivery.deliver([record])
    except Unavailable:
        raise
    except ConnectorError as error:
        return [TriedRecord("refused", None, None, None, None, payload, str(error))]
    return kept.records or [TriedRecord("dropped", None, None, None, None, payload, _reason(counters))]


def _reason(counters: Counters) -> str:
    if counters.refused:
        return f"not admitted: {', '.join(counters.refused)}"
    if counters.unmatched:
        return "it has no destination"
    return "it is invalid" if counters.invalid else "a transform removes it"


def _text(payload: Any) -> str:
    return payload.decode(errors="replace") if isinstance(payload, bytes) else str(payload)


class _Kept:
    """Takes the place of the producer, and keeps what it gets."""

    def __init__(self) -> None:
        self.records: list[TriedRecord] = []

    async def send_groups(self, groups: Mapping[Name, Sequence[Outgoing]]) -> dict[Any, Runs | HeadraceError]:
        for (stream, topic), messages in groups.items():
            for one in messages:
                key = one.key.decode(errors="replace") if isinstance(one.key, bytes) else one.key
                self.records.append(TriedRecord("sent", stream, topic, one.partition, key, _text(one.payload), None))
        return {name: [] for name in groups}
