"""A connector that can be started and stopped: what sources and sinks have in common."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from headrace.sdk.errors import HeadraceError
from headrace_connectors.contract import ConnectorError, Lag, Transform
from headrace_connectors.counters import Counters, SinkCounters
from headrace_connectors.leases.member import Lease, LeaseLost
from headrace_connectors.pipeline_file.models import ConnectorSettings
from headrace_connectors.pipeline_file.pipeline import ConfiguredPlugin
from headrace_connectors.runtime.status import Change, State, Status

_log = logging.getLogger(__name__)


class Unsupported(ConnectorError):
    """The call is for connectors of another kind."""

    code = "unsupported"


class RunsElsewhere(ConnectorError):
    """Another process of the group runs the connector."""

    code = "not_here"


class Connector(ABC):
    """A source or a sink, which can be started and stopped any number of times.

    Args:
        key: Its name in the pipeline file.
        plugin: Name of its plugin.
        settings: What sources and sinks share.
    """

    kind: Literal["source", "sink"]
    is_usable: bool = True
    """False: its configuration is not valid, and it only shows why."""
    counters: Counters | SinkCounters | None = None
    """Counters of this run, or of the last one; None: there was none."""

    def __init__(self, key: str, plugin: str, settings: ConnectorSettings) -> None:
        self.key = key
        self.plugin = plugin
        self.is_enabled = settings.enabled
        self.status = Status(on_change=self._log_change)
        self.lease: Lease | None = None
        """Lease without which it does not run; None: no other process could run it."""
        self.transforms: Mapping[str, Transform] = {}
        """Transforms of this run, or of the last one, by name."""
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """True until it has ended."""
        return self._task is not None and not self._task.done()

    @property
    def destinations_count(self) -> int:
        """Number of destinations in use."""
        return 0

    @property
    def open_circuits_count(self) -> int:
        """Number of destinations that are refused because they keep failing."""
        return 0

    @property
    @abstractmethod
    def invalid_count(self) -> int:
        """Number of records that could not be converted."""

    @abstractmethod
    async def _serve(self) -> None:
        """Run until the end, or until `_halt`."""

    @abstractmethod
    def _halt(self) -> bool:
        """Ask it to end by itself; False: it has not come so far, and is to be cancelled."""

    def start(self) -> None:
        """Start it, unless it runs.

        Raises:
            RunsElsewhere: It belongs to another process.
        """
        if self.lease is not None and self.lease.fence(self.key) is None:
            owner = self.lease.runs_in(self.key)
            if owner is None:
                raise RunsElsewhere(
                    f"{self.key} has no lease: it is disabled, or one of the processes is about to claim it"
                )
            raise RunsElsewhere(f"{self.key} runs in {owner}: ask there")
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=f"{self.kind}-{self.key}")

    async def stop(self) -> None:
        """Stop it: what is in flight ends, and what is not stored is read again at the next start."""
        if self._task is None or self._task.done():
            return
        self.status.become(State.STOPPING)
        if not self._halt():
            self._task.cancel()
        await asyncio.wait({self._task})

    def stand_by(self) -> None:
        """Show that another process runs it, unless it has to end here first."""
        if not self.is_running:
            self.status.become(State.STANDBY)

    def cut(self) -> None:
        """End it at once: what it does is cancelled."""
        if self._task is not None:
            self._task.cancel()

    def _may_go_on(self) -> bool:
        """Return True while it may write, save and commit."""
        return self.lease is None or self.lease.may_finish(self.key)

    async def ended(self) -> None:
        """Wait until it has ended, by itself or by `stop`."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def abandon(self) -> str | None:
        """Give up the pending batch; return the position that was given up to.

        Raises:
            ConnectorError: It keeps none, or does not run.
        """
        raise Unsupported(f"{self.key} is a {self.kind}: only change data capture keeps a batch that can be given up")

    def destinations(self) -> list[dict[str, Any]]:
        """Describe its destinations, for the status API.

        Raises:
            ConnectorError: It has none.
        """
        raise Unsupported(f"{self.key} is a {self.kind}: only sources have destinations")

    async def lag(self) -> Lag | None:
        """Return the distance from the end of what it reads; None: not known.

        Raises:
            Exception: It cannot be found out now.
        """
        return None

    def document(self) -> dict[str, Any]:
        """Describe it, for the status API."""
        return {
            "key": self.key,
            "kind": self.kind,
            "plugin": self.plugin,
            **({} if self.lease is None else {"runs_in": self.lease.runs_in(self.key)}),
            "transforms": {name: dict(found) for name, one in self.transforms.items() if (found := one.report())},
            **self.status.document(),
        }

    async def _open_transforms(self, transforms: Iterable[ConfiguredPlugin]) -> list[Transform]:
        """Create and open transforms, which are closed at the end of the run."""
        self.transforms = {one.name: one.create() for one in transforms}
        for transform in self.transforms.values():
            await transform.open()
        return list(self.transforms.values())

    async def _run(self) -> None:
        self.status.become(State.STARTING)
        try:
            try:
                await self._serve()
            finally:
                for transform in self.transforms.values():
                    await transform.close()
        except asyncio.CancelledError:
            # Stopped before it had started.
            self.status.become(State.STOPPED)
        except LeaseLost as error:
            self.status.become(State.STOPPED, str(error))
        except Exception as error:  # noqa: BLE001 - shown in the status; the other connectors go on
            self.status.failed(error)
            self.status.become(State.ERROR, str(error))
            if not isinstance(error, ConnectorError | HeadraceError | OSError):
                _log.exception("%s: the plugin failed", self.key)
        else:
            self.status.become(State.STOPPED)

    def _log_change(self, change: Change) -> None:
        level = logging.WARNING if change.state in (State.DEGRADED, State.ERROR) else logging.INFO
        _log.log(level, "%s: %s%s", self.key, change.state, f": {change.reason}" if change.reason else "")
