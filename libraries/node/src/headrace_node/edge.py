"""The encrypted listeners in front of a node, and its encrypted links, which run on native threads."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Generic, Protocol, TypeVar

from headrace_node.edge_config import EdgeSettings

NativeNode_contra = TypeVar("NativeNode_contra", contravariant=True)
"""Native node behind the listeners, which this module only passes on."""

_CLOSE_SECONDS = 3.0
"""Time for clients to receive the node's disconnect notice."""

_log = logging.getLogger(__name__)


class NativeEdge(Protocol[NativeNode_contra]):
    """Interface of `headrace_core.Edge`, which binds on construction. Methods may be called from any thread."""

    def addresses(self) -> dict[str, str]:
        """Bound address per listener."""

    def start(self, node: NativeNode_contra) -> None:
        """Accept clients."""

    def reload_certificates(self) -> None:
        """Check the certificate files now."""

    def stats_json(self) -> str:
        """Counters as JSON."""

    def take_events(self) -> list[tuple[str, str]]:
        """Level and message of the events since the last call, oldest first."""

    def close_listeners(self) -> None:
        """Stop accepting connections."""

    def stop(self, timeout_seconds: float) -> bool:
        """Wait for the last connections to end; return whether that was in time."""


class Edge(Generic[NativeNode_contra]):
    """The encrypted listeners of one process.

    Constructed, and so bound, before the node starts; ``open`` when the node listens; ``close_listeners`` before the
    node stops, so that its disconnect notice still reaches every client; ``stop`` after it.
    """

    def __init__(self, native: NativeEdge[NativeNode_contra]) -> None:
        self.native = native
        """Passed to the native node, which reaches other nodes through it."""
        self._addresses = native.addresses()

    @property
    def addresses(self) -> dict[str, str]:
        """Bound ``ip:port`` per listener (``tcp``, ``websocket``, ``quic``, ``binary``)."""
        return dict(self._addresses)

    async def open(self, node: NativeNode_contra) -> None:
        """Accept clients, to be served by ``node``."""
        await asyncio.to_thread(self.native.start, node)

    async def reload_certificates(self) -> None:
        """Check for new certificates now rather than at the next interval."""
        await asyncio.to_thread(self.native.reload_certificates)

    def statistics(self) -> dict[str, Any]:
        """Counters per listener, with the names of the native side."""
        counters: dict[str, Any] = json.loads(self.native.stats_json())
        return counters

    def take_events(self) -> list[tuple[str, str]]:
        """Level and message of the events since the last call, oldest first."""
        return self.native.take_events()

    def close_listeners(self) -> None:
        """Stop accepting connections; open connections stay."""
        self.native.close_listeners()

    async def stop(self) -> None:
        """End the threads after the last client has received the node's disconnect notice, or after a timeout."""
        if not await asyncio.to_thread(self.native.stop, _CLOSE_SECONDS):
            _log.warning("encrypted connections closed before their shutdown completed within %g s", _CLOSE_SECONDS)


def edge_fields(settings: EdgeSettings) -> dict[str, Any]:
    """Fields about the threads, in the document for `headrace_core.Edge`, beside those of the listeners."""
    return {
        "threads": settings.threads,
        "handshakes_max": settings.max_handshakes,
        "handshake_timeout_micros": settings.handshake_timeout.micros,
        "certificate_check_interval_micros": settings.certificate_check_interval.micros,
    }
