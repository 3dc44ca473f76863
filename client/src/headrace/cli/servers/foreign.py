"""Recognition of listeners that do not answer in the binary protocol."""

from __future__ import annotations

import socket
from typing import Final

_TIMEOUT_SECONDS: Final = 1.0
_QUESTION: Final = b"GET / HTTP/1.1\r\nHost: headrace\r\nConnection: close\r\n\r\n"
_HTTP2_SETTINGS: Final = 4
_TLS_ALERT: Final = 0x15


def protocol_at(address: str) -> str | None:
    """Ask the listener a question in HTTP, and return what its answer looks like; None if that is unclear.

    Args:
        address: ``host:port``, or ``tls://host:port?...``, about which nothing is found out.
    """
    host, _, port = address.rpartition(":")
    if "://" in address:
        return None
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_TIMEOUT_SECONDS) as connection:
            connection.settimeout(_TIMEOUT_SECONDS)
            connection.sendall(_QUESTION)
            answer = connection.recv(16)
    except OSError:
        return None
    if answer.startswith(b"HTTP/"):
        return "HTTP"
    if len(answer) > _HTTP2_SETTINGS and answer[0] == 0 and answer[3] == _HTTP2_SETTINGS:
        return "HTTP/2, as of gRPC"
    if answer[:2] == bytes((_TLS_ALERT, 3)):
        return f"TLS: use tls://{address}?ca=FILE for a listener with TLS"
    return None
