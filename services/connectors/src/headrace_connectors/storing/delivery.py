"""Delivery of the records of a batch to their topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Any, Final, Literal, Protocol

from headrace.sdk.direct import Outgoing, Runs
from headrace.sdk.errors import HeadraceError
from headrace_connectors.admission.table import AdmissionTable, Name, Refusal
from headrace_connectors.contract import (
    Codec,
    ConnectorError,
    Destination,
    InvalidRecord,
    Opaque,
    Record,
    SourceMode,
    Transform,
)
from headrace_connectors.counters import Counters
from headrace_connectors.failures import (
    FailureClass,
    Refused,
    Undelivered,
    class_of,
    is_of_destination,
    translated,
)
from headrace_connectors.pipeline_file.models import SourceSettings
from headrace_connectors.routing.columns import ColumnRouter
from headrace_connectors.transforming import transformed

_PAYLOAD_BYTES_MAX: Final = 64_000_000
_KEY_BYTES_MAX: Final = 255


class DirectProducer(Protocol):
    """Sender of messages: `headrace.aio.DirectProducer`."""

    async def send_groups(self, groups: Mapping[Any, Any]) -> dict[Any, Runs | HeadraceError]:
        """Send messages to several topics at a time: lists of `Outgoing` by stream and topic."""


class Delivery:
    """Routes, transforms, admits, encodes and sends the records of one source."""

    def __init__(
        self,
        settings: SourceSettings,
        mode: SourceMode,
        transforms: Sequence[Transform],
        codec: Codec,
        table: AdmissionTable,
        producer: DirectProducer,
        counters: Counters,
    ) -> None:
        self._settings = settings
        self._transforms = transforms
        self._encode = codec.encode
        self._table = table
        self._producer = producer
        self._counters = counters
        self._router = ColumnRouter(settings.routing) if settings.routing is not None else None
        self._is_bound = self._router is None and not any(one.is_routing for one in transforms)
        self._on_refusal = settings.admission.on_admission_failure or refusal_policy(mode)

    async def deliver(self, records: Sequence[Record]) -> int:
        """Store the records in their topics; return their number without those that were dropped.

        Raises:
            Unavailable: At least one destination failed; nothing of the batch counts as stored.
            ConnectorError: Records are invalid or not admitted, and may not be dropped.
        """
        outgoing = await self.prepare(records)
        if not outgoing:
            return 0
        self.check(outgoing, await self._producer.send_groups(outgoing))
        return self.stored(sum(map(len, outgoing.values())))

    async def prepare(self, records: Sequence[Record]) -> dict[Name, list[Outgoing]]:
        """Return the messages of each topic, which exists.

        Raises:
            Unavailable: A topic cannot be looked up or created, or its circuit is open and nothing says to drop.
            ConnectorError: Records are invalid or not admitted, and may not be dropped.
        """
        groups = self._grouped(self._prepared(self._readable(records)))
        admitted, refusals = await self._admitted(groups)
        self._judge(refusals)
        return {name: messages for name, group in admitted.items() if (messages := self._encoded(group))}

    def check(self, outgoing: Mapping[Name, Sized], results: Mapping[Name, Any]) -> None:
        """Note which destinations have taken their messages, and which have failed.

        Raises:
            Undelivered: At least one has failed.
            ConnectorError: The connector cannot go on.
        """
        failures = []
        for name, result in results.items():
            if isinstance(result, HeadraceError):
                failure = translated(result, "/".join(name))
                is_own = is_of_destination(result)
                is_lasting = is_own and class_of(result) is FailureClass.DESTINATION
                self._table.failed(name, str(failure), is_own=is_own, is_lasting=is_lasting)
                failures.append(failure)
            else:
                self._table.succeeded(name, len(outgoing[name]))
        if failures:
            # One that needs a correction has to be seen among others that do not.
            worst = max(failures, key=lambda one: class_of(one) is not FailureClass.TRANSIENT)
            more = f" (and {len(failures) - 1} more destinations)" if len(failures) > 1 else ""
            raise type(worst)(f"{worst}{more}")

    def stored(self, count: int) -> int:
        """Note a number of records that are stored, and return it."""
        self._counters.routed += count
        return count

    def _readable(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return the records that their source could read."""
        problems = [record.problem for record in records if record.problem is not None]
        for problem in problems:
            self._invalid(InvalidRecord(problem))
        return [record for record in records if record.problem is None] if problems else records

    def _prepared(self, records: Sequence[Record]) -> Sequence[Record]:
        if self._router is None and not self._transforms:
            return records
        prepared: list[Record] = []
        for transform in self._transforms:
            transform.begin_batch()
        for record in records:
            try:
                if self._router is not None:
                    self._router.route(record)
                prepared += transformed(record, self._transforms)
            except InvalidRecord as error:
                self._invalid(error)
        return prepared

    def _invalid(self, error: InvalidRecord) -> None:
        self._counters.invalid += 1
        if self._on_refusal == "error":
            raise error

    def _grouped(self, records: Sequence[Record]) -> dict[Name, list[Record]]:
        if self._is_bound:
            return self._of_one_topic(records)
        groups: dict[Name, list[Record]] = {}
        for record in records:
            destination = record.destination
            if destination is None:
                destination = self._default()
                if destination is None:
                    continue
                record.destination = destination
            name = (destination.stream, destination.topic)
            group = groups.get(name)
            if group is None:
                group = groups[name] = []
            group.append(record)
        return groups

    def _of_one_topic(self, records: Sequence[Record]) -> dict[Name, list[Record]]:
        for record in records:
            if record.destination is not None:
                raise ConnectorError(
                    f"a record names the destination {record.destination.stream}/{record.destination.topic}, and the "
                    "source has no routing: add `routing`, or a transform that routes"
                )
        return {self._own_topic(): list(records)} if records else {}

    def _own_topic(self) -> Name:
        if self._settings.stream is None or self._settings.topic is None:
            raise AssertionError("the pipeline file is checked: a source without routing has a topic")
        return self._settings.stream, self._settings.topic

    def _default(self) -> Destination | None:
        policy: Literal["default", "drop", "error"] = self._settings.admission.on_missing_destination
        self._counters.unmatched[policy] += 1
        if policy == "default":
            return Destination(*self._own_topic())
        if policy == "drop":
            return None
        raise Refused(
            "a record has no destination: complete the routing, or set admission.on_missing_destination to "
            '"default" or "drop"'
        )

    async def _admitted(
        self, groups: Mapping[Name, Sequence[Record]]
    ) -> tuple[dict[Name, list[Record]], list[Refusal]]:
        try:
            return await self._table.admit(groups)
        except HeadraceError as error:
            raise translated(error, "a destination cannot be looked up or created") from error

    def _judge(self, refusals: Sequence[Refusal]) -> None:
        for refusal in refusals:
            self._counters.refused[refusal.reason] += refusal.records_count
        if refusals and self._on_refusal == "error":
            raise Refused(refusals[0].text)
        if self._settings.admission.on_admission_failure is None:
            for refusal in refusals:
                if refusal.reason == "circuit_open":
                    # Dropped, it would be answered as stored, and not be sent again when the topic works.
                    raise Undelivered(refusal.text)

    def _encoded(self, records: Sequence[Record]) -> list[Outgoing]:
        messages = []
        encode = self._encode
        for record in records:
            try:
                payload = encode(record.payload)
                _check_sizes(payload, record)
            except InvalidRecord as error:
                self._invalid(error)
                continue
            destination = record.destination
            if destination is None:
                messages.append(Outgoing(payload, headers=record.headers, message_id=record.id))
            else:
                messages.append(Outgoing(payload, destination.key, destination.partition, record.headers, record.id))
        return messages


def _check_sizes(payload: bytes, record: Record) -> None:
    """Refuse what no server accepts: it would hold the other records of its batch up for ever.

    Raises:
        InvalidRecord: The payload or the key is too large.
    """
    if len(payload) > _PAYLOAD_BYTES_MAX:
        raise InvalidRecord(f"a message would have {len(payload)} bytes: at most {_PAYLOAD_BYTES_MAX} are allowed")
    key = record.destination.key if record.destination is not None else None
    if key is not None and not 0 < len(key) <= _KEY_BYTES_MAX:
        raise InvalidRecord(f"a partition key has {len(key)} bytes: 1 to {_KEY_BYTES_MAX} are allowed")


def refusal_policy(mode: SourceMode) -> Literal["error", "drop"]:
    """Return what happens to records that are not admitted, if no setting says it.

    Logs and tables are read on from the last position: a dropped record would not be read again, so they wait. Behind
    any other source, senders have to correct such records, and one of them must not hold up those of others. Records
    for a topic that only fails now are not dropped: these senders send them again.
    """
    return "drop" if isinstance(mode, Opaque) else "error"
