"""Echo server over a WebSocket with the options of the push API: the subject of conformance suites.

`python -m tests.apis.push.echo 9002` listens on that port until it is interrupted.
"""

from __future__ import annotations

import sys

from aiohttp import web

from headrace_gateway.push.connections.received import Limits
from headrace_gateway.push.connections.socket import Socket
from headrace_gateway.push.connections.upgrade import accepted
from headrace_gateway.push.frames import BINARY, JSON

MESSAGE_BYTES_MAX = 64 << 20
# No login comes first, and Autobahn sends thousands of frames at once.
LIMITS = Limits(
    message_bytes=MESSAGE_BYTES_MAX,
    first_message_bytes=MESSAGE_BYTES_MAX,
    frames_per_second=1_000_000,
    controls_per_second=10_000,
)


async def echo(request: web.Request) -> web.StreamResponse:
    upgraded = accepted(request, protocols=(JSON, BINARY), compression=False)
    assert upgraded is not None
    socket = await Socket.open(request, upgraded, LIMITS)
    while (message := await socket.receive()) is not None:
        if isinstance(message, str):
            await socket.send_text(message.encode())
        else:
            await socket.send_binary(message)
    await socket.ended()
    return upgraded


if __name__ == "__main__":
    application = web.Application()
    application.router.add_get("/", echo)
    web.run_app(application, host="127.0.0.1", port=int(sys.argv[1]), print=None)
