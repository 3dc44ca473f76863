"""The encrypted doors in front of a node: TLS over TCP and WebSocket. Their work is native, on threads of their own."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Generic, Protocol, TypeVar

from headrace_gateway.config import GatewayConfig, TcpConfig, WebsocketConfig
from headrace_gateway.door_config import CertificateConfig

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
        self._native = native
        self._addresses = native.addresses()

    @property
    def addresses(self) -> dict[str, str]:
        """Per door (``tcp``, ``websocket``, ``quic``) the ``ip:port`` really bound."""
        return dict(self._addresses)

    async def open(self, node: NativeNode_contra) -> None:
        """Let clients in, to be served by ``node``."""
        if self._addresses:
            await asyncio.to_thread(self._native.start, node)

    async def reload_certificates(self) -> None:
        """Use new certificates now rather than with the next look at the files."""
        await asyncio.to_thread(self._native.reload_certificates)

    def statistics(self) -> dict[str, Any]:
        """Counters per door, as the native side names them."""
        counters: dict[str, Any] = json.loads(self._native.stats_json())
        return counters

    def close_doors(self) -> None:
        """Let nobody in any more; connections stay."""
        self._native.close_doors()

    async def stop(self) -> None:
        """End the threads, when the last client has heard the node's goodbye or should have."""
        if not await asyncio.to_thread(self._native.stop, _GOODBYE_SECONDS):
            _log.warning("some encrypted connections were cut off %g s after the goodbye", _GOODBYE_SECONDS)


def edge_document(config: GatewayConfig) -> str:
    """The JSON document that `headrace_core.Edge` takes: plain numbers with their units in the names."""
    return json.dumps(
        {
            "tcp": _tls_door(config.tcp),
            "websocket": _tls_door(config.websocket),
            "quic": _quic_door(config) if config.quic.enabled else None,
            "threads": config.edge.threads,
            "handshakes_max": config.edge.max_handshakes,
            "handshake_timeout_micros": config.edge.handshake_timeout.micros,
            "certificate_check_interval_micros": config.edge.certificate_check_interval.micros,
        }
    )


def _tls_door(listener: TcpConfig | WebsocketConfig) -> dict[str, Any] | None:
    tls = listener.tls
    if not (listener.enabled and tls.enabled):
        return None
    return {
        "address": str(listener.address),
        "certificate": _certificate(tls),
        "client_certificates": tls.client_certificates,
        "client_ca_file": tls.client_ca_file,
    }


def _quic_door(config: GatewayConfig) -> dict[str, Any]:
    quic = config.quic
    sizes = quic.socket if quic.socket.override_defaults else None
    return {
        "address": str(quic.address),
        "certificate": _certificate(quic.certificate),
        "max_concurrent_bidi_streams": quic.max_concurrent_bidi_streams,
        "send_window_bytes": quic.send_window.bytes,
        "receive_window_bytes": quic.receive_window.bytes,
        "initial_mtu_bytes": quic.initial_mtu.bytes,
        "keep_alive_interval_micros": quic.keep_alive_interval.micros,
        "max_idle_timeout_micros": quic.max_idle_timeout.micros,
        "recv_buffer_bytes": sizes.recv_buffer_size.bytes if sizes else None,
        "send_buffer_bytes": sizes.send_buffer_size.bytes if sizes else None,
        "send_payload_bytes_max": config.tcp.max_request_size.bytes,
    }


def _certificate(certificate: CertificateConfig) -> dict[str, Any]:
    return {
        "cert_file": certificate.cert_file,
        "key_file": certificate.key_file,
        "self_signed": certificate.self_signed,
    }
