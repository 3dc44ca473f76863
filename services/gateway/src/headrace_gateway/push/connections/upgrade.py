"""The answer to an upgrade request."""

from __future__ import annotations

import base64
import hashlib

from aiohttp import hdrs, web
from aiohttp.http import WS_KEY, ws_ext_gen, ws_ext_parse


class Upgraded(web.StreamResponse):
    """The answer that makes a connection a WebSocket.

    Attributes:
        subprotocol: Accepted subprotocol, if the client offers one.
        window_bits: Window of permessage-deflate; 0: no compression.
        keeps_no_context: Whether each message sent is compressed by itself.
    """

    def __init__(self, request: web.Request, *, subprotocol: str | None, compression: bool) -> None:
        super().__init__(status=101)
        key = request.headers[hdrs.SEC_WEBSOCKET_KEY].encode()
        accepted = base64.b64encode(hashlib.sha1(key + WS_KEY, usedforsecurity=False).digest()).decode()
        self.headers.update(
            {hdrs.UPGRADE: "websocket", hdrs.CONNECTION: "upgrade", hdrs.SEC_WEBSOCKET_ACCEPT: accepted}
        )
        self.subprotocol = subprotocol
        if subprotocol is not None:
            self.headers[hdrs.SEC_WEBSOCKET_PROTOCOL] = subprotocol
        self.window_bits, self.keeps_no_context = 0, False
        if compression:
            offered = request.headers.get(hdrs.SEC_WEBSOCKET_EXTENSIONS)
            self.window_bits, self.keeps_no_context = ws_ext_parse(offered, isserver=True)
        if self.window_bits:
            self.headers[hdrs.SEC_WEBSOCKET_EXTENSIONS] = ws_ext_gen(
                compress=self.window_bits, isserver=True, server_notakeover=self.keeps_no_context
            )
        self.force_close()


def accepted(request: web.Request, *, protocols: tuple[str, ...], compression: bool) -> Upgraded | None:
    """Return the answer to an upgrade request; None if the request is none."""
    ready = web.WebSocketResponse(protocols=protocols).can_prepare(request)
    return Upgraded(request, subprotocol=ready.protocol, compression=compression) if ready else None
