"""The connectors process: the connectors of a pipeline file, and the HTTP interface."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from headrace import aio
from headrace_chassis.lifecycle import Lifecycle
from headrace_chassis.metrics import registry
from headrace_connectors.admission.topics import Topics
from headrace_connectors.configuration.configurations import Configurations, Spec, Unusable
from headrace_connectors.configuration.seen import SeenTables
from headrace_connectors.configuration.store import GroupVersions, VersionStore
from headrace_connectors.contract import ConnectorError
from headrace_connectors.http import api
from headrace_connectors.leases.member import GroupMember
from headrace_connectors.leases.topic import LedgerTopic
from headrace_connectors.observability.history import History
from headrace_connectors.pipeline_file.models import ServerSettings
from headrace_connectors.pipeline_file.pipeline import Pipeline, SinkSpec, SourceSpec
from headrace_connectors.runtime.connector import Connector
from headrace_connectors.runtime.isolation.connector import ProcessConnector
from headrace_connectors.runtime.metrics import ConnectorCollector
from headrace_connectors.runtime.sharing import Sharing
from headrace_connectors.runtime.sink_connector import SinkConnector
from headrace_connectors.runtime.source_connector import SourceConnector
from headrace_connectors.runtime.supervisor import Supervisor
from headrace_connectors.runtime.trials.sink_trial import try_sink
from headrace_connectors.runtime.trials.source_trial import Trial, try_source
from headrace_connectors.runtime.unusable_connector import UnusableConnector
from headrace_connectors.server_client import client_of
from headrace_connectors.state.store import LoadState, States, StateStore
from headrace_connectors.state.topic import LedgerStates, TopicStates
from headrace_settings import Address

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunningConnectors:
    """Connectors that run."""

    pipeline: Pipeline
    supervisor: Supervisor
    http_address: Address | None
    """Address actually bound."""
    _life: Lifecycle

    async def reload_certificates(self) -> None:
        """Check for new certificates: there are none."""

    async def until(self, stop: asyncio.Event) -> None:
        """Wait until ``stop`` is set."""
        await self._life.until(stop.wait())

    def log_addresses(self) -> None:
        """Write to the log what runs, and where the HTTP interface is."""
        _log.info(
            "connectors run: %s; HTTP on %s",
            ", ".join(one.key for one in self.supervisor.connectors),
            self.http_address or "no address",
        )


@asynccontextmanager
async def running(pipeline: Pipeline) -> AsyncIterator[RunningConnectors]:
    """Run the connectors of a pipeline file for the duration of an ``async with`` block.

    Raises:
        HeadraceError: The server cannot be reached, or refuses the login.
        StartRefused: The state directory is in use, or an address cannot be bound.
        ConnectorError: Versions of a configuration cannot be understood, or those of the group cannot be read.
        OSError: The state directory cannot be used.
    """
    life = Lifecycle()
    async with AsyncExitStack() as stack:
        client, member, store = await _opened(stack, pipeline)
        configurations, specs = await _configurations(pipeline, member)
        supervisor = Supervisor(_connector(one, pipeline.server, client, store) for one in specs)
        seconds = pipeline.runtime.stop_timeout.seconds
        sharing = None
        if member is not None:

            def successor(key: str) -> Connector | None:
                spec = configurations.successor(key)
                return None if spec is None else _connector(spec, pipeline.server, client, store)

            sharing = Sharing(member, supervisor, configurations.outdated, successor)

        async def apply(key: str, spec: Spec | None) -> None:
            if sharing is not None:
                await sharing.applied(key, seconds)
            else:
                successor = None if spec is None else _connector(spec, pipeline.server, client, store)
                await supervisor.replace(key, successor, seconds)

        history = History(lambda: supervisor.connectors, time.monotonic)
        await stack.enter_async_context(life.essential(history.run(), "history"))
        collector = ConnectorCollector(lambda: supervisor.connectors, history.lag_of)
        address = await stack.enter_async_context(
            api.serving(
                pipeline.http,
                supervisor,
                configurations,
                apply,
                history,
                health=life.health,
                metrics=registry(collector),
            )
        )
        if member is None or sharing is None:
            supervisor.start()
            stack.push_async_callback(_stopped, supervisor, seconds)
        else:
            await stack.enter_async_context(_shared(member, sharing, life, seconds))
        with life.running():
            yield RunningConnectors(pipeline, supervisor, address, life)


async def tried(pipeline: Pipeline, *, records_max: int, seconds: float) -> list[Trial]:
    """Try each connector that is enabled: where records would go, and what would be written. Nothing is stored.

    Args:
        pipeline: The pipeline.
        records_max: Maximum number of records of a source, and of messages of each topic of a sink.
        seconds: Time for each connector.

    Raises:
        HeadraceError: The server cannot be reached, or refuses the login.
    """
    async with client_of(pipeline.server) as client:
        store = await _states_now(pipeline, client)
        sources = [
            await try_source(
                spec,
                store,
                Topics(client, spec.settings.defaults_of).partitions_count,
                records_max=records_max,
                seconds=seconds,
            )
            for spec in pipeline.sources.values()
            if spec.settings.enabled
        ]
        sinks = [
            await try_sink(spec, client, pipeline.creates, records_max=records_max, seconds=seconds)
            for spec in pipeline.sinks.values()
            if spec.settings.enabled
        ]
        return [*sources, *sinks]


async def _states_now(pipeline: Pipeline, client: aio.Client) -> LoadState:
    """Return the states as they are, without creating anything."""
    files = StateStore.unlocked(pipeline.state_directory)
    sharing = pipeline.sharing
    if sharing.group is None:
        return files
    topic = LedgerTopic(client, sharing.stream, sharing.group, timeout=pipeline.server.timeout.seconds)
    ledger = await topic.read_once()
    return LedgerStates(lambda: ledger.states, files)


def _connector(spec: Spec | Unusable, server: ServerSettings, client: aio.Client, store: States) -> Connector:
    match spec:
        case Unusable():
            kind: Literal["source", "sink"] = "source" if spec.kind == "sources" else "sink"
            return UnusableConnector(spec.key, kind, spec.plugin, spec.reason)
        case SourceSpec() | SinkSpec() if spec.settings.isolation == "process":
            return ProcessConnector(spec, server, store)
        case SourceSpec():
            return SourceConnector(spec, client, store)
        case SinkSpec():
            return SinkConnector(spec, client)


async def _opened(stack: AsyncExitStack, pipeline: Pipeline) -> tuple[aio.Client, GroupMember | None, States]:
    """Return a client, the member of the group, if there is one, and the states."""
    sharing = pipeline.sharing
    if sharing.group is None:
        store = stack.enter_context(StateStore.opened(pipeline.state_directory))
        return await stack.enter_async_context(client_of(pipeline.server)), None, store
    client = await stack.enter_async_context(client_of(pipeline.server))
    seconds = sharing.lease.seconds
    topic = LedgerTopic(client, sharing.stream, sharing.group, timeout=seconds / 3)
    await stack.enter_async_context(topic.opened())
    member = GroupMember(topic, lease_seconds=seconds)
    return client, member, TopicStates(member, StateStore.unlocked(pipeline.state_directory))


async def _configurations(
    pipeline: Pipeline, member: GroupMember | None
) -> tuple[Configurations, list[Spec | Unusable]]:
    """Return the configurations, and those of the connectors to run."""
    settings, directory = pipeline.http.configuration, pipeline.state_directory
    if member is None or not settings.enabled:
        configurations = Configurations(pipeline.definitions, settings, VersionStore(directory / "configuration"))
        return configurations, configurations.open()
    seen = SeenTables(directory, str(pipeline.sharing.group), pipeline.file)
    configurations = Configurations(pipeline.definitions, settings, GroupVersions(member), seen)
    return configurations, await configurations.open_shared()


@asynccontextmanager
async def _shared(member: GroupMember, sharing: Sharing, life: Lifecycle, stop_seconds: float) -> AsyncIterator[None]:
    """Share the connectors with the group for the duration of an ``async with`` block; leave it at the end."""
    async with life.essential(member.renewing(), "leases"):
        async with life.essential(sharing.working(), "sharing"):
            yield
        _log_late(await sharing.close(stop_seconds))
        try:
            await member.leave()
        except ConnectorError as error:
            _log.warning("others wait for the end of the leases of this process: %s", error)


async def _stopped(supervisor: Supervisor, seconds: float) -> None:
    _log_late(await supervisor.stop(seconds))


def _log_late(late: Sequence[str]) -> None:
    if late:
        _log.warning("did not end in time: %s; what they had not committed is read again", ", ".join(late))
