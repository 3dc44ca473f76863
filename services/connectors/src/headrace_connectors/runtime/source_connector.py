"""One source with everything around it: plugins, destinations, state, status."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

from headrace.aio.client import Client
from headrace.aio.direct import DirectProducer
from headrace.sdk.errors import HeadraceError
from headrace_connectors.admission.table import AdmissionTable
from headrace_connectors.admission.topics import Topics
from headrace_connectors.contract import ConnectorError, Lag, Opaque, Polling, Source
from headrace_connectors.counters import Counters
from headrace_connectors.pipeline_file.pipeline import SourceSpec
from headrace_connectors.runtime.connector import Connector
from headrace_connectors.runtime.pipelined_loop import PipelinedLoop
from headrace_connectors.runtime.source_loop import NotAbandonable, SourceLoop
from headrace_connectors.state.store import States
from headrace_connectors.storing.delivery import Delivery
from headrace_connectors.storing.dispatch import Dispatcher, OrderedDelivery
from headrace_connectors.storing.exactly_once import ExactlyOnce
from headrace_connectors.storing.progress import Stored
from headrace_connectors.storing.steps import AtLeastOnce, SaveState, Storing

_log = logging.getLogger(__name__)


class SourceConnector(Connector):
    """A source that can be started and stopped any number of times.

    Args:
        spec: Its description.
        client: Connection for looking up and creating topics, and for sending.
        store: Where its state is kept.
    """

    kind = "source"

    def __init__(self, spec: SourceSpec, client: Client, store: States) -> None:
        super().__init__(spec.key, spec.source.name, spec.settings)
        self.spec = spec
        self.counters: Counters = Counters()
        self._client = client
        self._store = store
        self._table = self._new_table()
        self._loop: SourceLoop | None = None

    @property
    def source(self) -> Source | None:
        """The plugin's object, while the source runs."""
        return None if self._loop is None else self._loop.source

    @property
    def table(self) -> AdmissionTable:
        """Destinations of this run, or of the last one."""
        return self._table

    @property
    def destinations_count(self) -> int:
        """Number of destinations in use."""
        return len(self._table)

    @property
    def open_circuits_count(self) -> int:
        """Number of destinations that are refused because they keep failing."""
        return self._table.open_circuits_count

    @property
    def invalid_count(self) -> int:
        """Number of records that could not be routed, transformed or encoded."""
        return self.counters.invalid

    async def abandon(self) -> str | None:
        """Give up the pending batch; return the position that was given up to.

        Raises:
            ConnectorError: The source keeps none, or does not run.
        """
        if self._loop is None:
            raise NotAbandonable(f"{self.key} does not run")
        return await self._loop.abandon()

    async def lag(self) -> Lag | None:
        """Return the distance from the end of what the source reads; None: it does not run, or does not know."""
        return None if self._loop is None else await self._loop.source.lag()

    def destinations(self) -> list[dict[str, Any]]:
        """Describe the destinations of this run, or of the last one."""
        return self._table.documents()

    def document(self) -> dict[str, Any]:
        """Describe it, for the status API."""
        return {
            **super().document(),
            "is_routed": self.spec.is_routed,
            "destinations_count": len(self._table),
            "dropped": {"refused": dict(self.counters.refused), "unmatched": dict(self.counters.unmatched)},
        }

    def _halt(self) -> bool:
        if self._loop is not None:
            self._loop.stop()
        return self._loop is not None

    async def _serve(self) -> None:
        spec, delivery = self.spec, self.spec.settings.delivery
        source = self._create()
        _check_mode(source, spec)
        transforms = await self._open_transforms(spec.transforms)
        codec = spec.codec.create()
        stored = Stored.decode(await self._store.load(self.key, spec.source.name))
        self._table = self._new_table()
        late = await self._table.prewarm()
        if late:
            _log.warning("%s: destinations are not ready: %s", self.key, ", ".join("/".join(name) for name in late))
        producer = self._client.direct_producer(
            max_concurrent_destinations=delivery.max_concurrent_destinations,
            delivery_timeout=delivery.timeout.seconds,
        )
        try:
            sending = Delivery(spec.settings, source.mode(), transforms, codec, self._table, producer, self.counters)
            kind = SourceLoop if delivery.batches_in_flight == 1 else PipelinedLoop
            self._loop = kind(self.key, source, delivery, self.status, may_go_on=self._may_go_on, create=self._create)
            await self._loop.run(self._storing(stored, sending, producer))
        finally:
            self._loop = None
            with contextlib.suppress(HeadraceError):
                await producer.close()

    def _create(self) -> Source:
        source: Source = self.spec.source.create()
        source.keeps_incomplete = self.spec.settings.delivery.guarantee != "exactly_once"
        return source

    def _storing(self, stored: Stored, sending: Delivery, producer: DirectProducer) -> Storing:
        delivery = self.spec.settings.delivery
        save: SaveState = partial(self._store.save, self.key, self.spec.source.name)
        exactly_once = ExactlyOnce(
            stored,
            sending,
            producer,
            self._client,
            save,
            name=delivery.transaction or f"connector-{self.key}",
            lifetime=timedelta(seconds=delivery.stage_lifetime.seconds),
        )
        if delivery.guarantee == "exactly_once":
            return exactly_once
        recover: Callable[[], Awaitable[bytes | None]] = partial(_value, stored.state)
        if stored.delivery is not None:
            # A batch of an earlier run may be pending, and its writer keeps its identity.
            save, recover = exactly_once.save_settled, exactly_once.recover
        if delivery.batches_in_flight == 1:
            return AtLeastOnce(sending, save, recover)
        dispatcher = Dispatcher(
            producer,
            concurrency=delivery.max_concurrent_destinations,
            batches_max=delivery.batches_in_flight,
            linger=delivery.linger.seconds,
        )
        ordered = OrderedDelivery(sending, dispatcher)
        return AtLeastOnce(ordered, save, recover, ordered.begin_again)

    def _new_table(self) -> AdmissionTable:
        settings = self.spec.settings
        topics = Topics(self._client, settings.defaults_of, self.counters.created)
        return AdmissionTable(settings.admission, settings.circuit_breaker, topics.ensure, time.monotonic)


async def _value(value: bytes | None) -> bytes | None:
    return value


def _check_mode(source: Source, spec: SourceSpec) -> None:
    """Refuse settings that delete or mark rows for a source that has not declared this.

    Raises:
        ConnectorError: The settings and the mode contradict each other.
    """
    mode = source.mode()
    settings = spec.source.settings
    destructive = [name for name in ("delete_after_read", "processed_column") if getattr(settings, name, None)]
    if isinstance(mode, Polling) and not mode.destructive and destructive:
        raise ConnectorError(
            f"sources.{spec.key}.settings.{destructive[0]} changes rows, and the plugin {spec.source.name} does not "
            "declare this (`Polling(destructive=True)`): remove the setting, or correct the plugin"
        )
    if isinstance(mode, Opaque) and spec.settings.delivery.guarantee == "exactly_once":
        raise ConnectorError(
            f'sources.{spec.key}.delivery.guarantee = "exactly_once" needs a source that continues after a state, and '
            f"the senders of the plugin {spec.source.name} may send twice: remove the setting, and let readers drop "
            "messages with the same id"
        )
