"""Configuration document of the native listeners of a gateway."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace_gateway.config import GatewayConfig, TcpConfig, WebsocketConfig
from headrace_gateway.listeners.config import CertificateConfig
from headrace_node.edge import edge_fields


def edge_document(config: GatewayConfig, links: Mapping[str, Any] | None = None) -> str:
    """Return the JSON document that `headrace_core.Edge` takes: plain numbers with their units in the names.

    Args:
        config: Settings of the listeners.
        links: Encryption of connections to partition nodes; None: not done by the edge.
    """
    return json.dumps(
        {
            "tcp": _tls_listener(config.tcp),
            "websocket": _tls_listener(config.websocket),
            "quic": _quic_listener(config) if config.quic.enabled else None,
            "links": links,
            "proxies": config.proxy.networks,
            **edge_fields(config.edge),
        }
    )


def _tls_listener(listener: TcpConfig | WebsocketConfig) -> dict[str, Any] | None:
    tls = listener.tls
    if not (listener.enabled and tls.enabled):
        return None
    return {
        "address": str(listener.address),
        "certificate": _certificate(tls),
        "client_certificates": tls.client_certificates,
        "client_ca_file": tls.client_ca_file,
        "client_crl_file": tls.client_crl_file,
    }


def _quic_listener(config: GatewayConfig) -> dict[str, Any]:
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
