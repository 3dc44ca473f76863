"""The encrypted doors in front of a node, and its encrypted links. Their work is native, on threads of their own."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from headrace_shards.edge_config import EdgeSettings

NativeNode_contra = TypeVar("NativeNode_contra", contravariant=True)
"""The native node behind the doors, which is only handed on."""

_GOODBYE_SECONDS = 3.0
"""Clients who were said goodbye to have this long to hear it."""

_log = logging.getLogger(__name__)


class NativeEdge(Protocol[NativeNode_contra]):
    """`headrace_core.Edge`: bound when it is made. Methods may be called from any thread."""

    def addresses(self) -> dict[str, str]:
        """Per door the address really bound."""

    def start(self, node: NativeNode_contra) -> None:
        """Let clients in."""

    def reload_certificates(self) -> None:
        """Look at the files of the certificates now."""

    def stats_json(self) -> str:
        """Counters as JSON."""

    def take_events(self) -> list[tuple[str, str]]:
        """Level and message of what happened since the last call, oldest first."""

    def close_doors(self) -> None:
        """Let nobody in any more."""

    def stop(self, timeout_seconds: float) -> bool:
        """Wait for the last connections to end; whether that was in time."""


class Edge(Generic[NativeNode_contra]):
    """The doors of one process.

    Made, and so bound, before the node starts; ``open`` when the node listens; ``close_doors`` before the node stops,
    whose goodbye still reaches every client; ``stop`` after it.
    """

    def __init__(self, native: NativeEdge[NativeNode_contra]) -> None:
        self.native = native
        """For the native node, which reaches other nodes through it."""
        self._addresses = native.addresses()

    @property
    def addresses(self) -> dict[str, str]:
        """Per door (``tcp``, ``websocket``, ``quic``, ``binary``) the ``ip:port`` really bound."""
        return dict(self._addresses)

    async def open(self, node: NativeNode_contra) -> None:
        """Let clients in, to be served by ``node``."""
        await asyncio.to_thread(self.native.start, node)

    async def reload_certificates(self) -> None:
        """Use new certificates now rather than with the next look at the files."""
        await asyncio.to_thread(self.native.reload_certificates)

    def statistics(self) -> dict[str, Any]:
        """Counters per door, as the native side names them."""
        counters: dict[str, Any] = json.loads(self.native.stats_json())
        return counters

    def take_events(self) -> list[tuple[str, str]]:
        """Level and message of what happened since the last call, oldest first."""
        return self.native.take_events()

    def close_doors(self) -> None:
        """Let nobody in any more; connections stay."""
        self.native.close_doors()

    async def stop(self) -> None:
        """End the threads, when the last client has heard the node's goodbye or should have."""
        if not await asyncio.to_thread(self.native.stop, _GOODBYE_SECONDS):
            _log.warning("some encrypted connections were cut off %g s after the goodbye", _GOODBYE_SECONDS)


class ReloadSignal:
    """SIGUSR1, by which a process looks for new certificates. It would end one that has not said what it does then."""

    def __init__(self) -> None:
        """Take the signal from now on; needs a running event loop."""
        self._reload: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._came_early = False
        self._reloads: set[asyncio.Task[None]] = set()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._on_signal)

    def calls(self, reload: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Say what looks for them; it does so at once if the signal came while the process started."""
        self._reload = reload
        if self._came_early:
            self._on_signal()

    def _on_signal(self) -> None:
        if self._reload is None:
            self._came_early = True
            return
        # A task that nobody holds may be collected before it has run.
        task = asyncio.ensure_future(self._reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)


def edge_fields(settings: EdgeSettings) -> dict[str, Any]:
    """What the document that `headrace_core.Edge` takes says about its threads, beside the doors."""
    return {
        "threads": settings.threads,
        "handshakes_max": settings.max_handshakes,
        "handshake_timeout_micros": settings.handshake_timeout.micros,
        "certificate_check_interval_micros": settings.certificate_check_interval.micros,
    }
