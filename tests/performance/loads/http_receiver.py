"""An HTTP server that reads requests and answers 200: `python -m tests.performance.loads.http_receiver PORT`."""

from __future__ import annotations

import sys

from aiohttp import web

_BODY_BYTES = 64_000_000


async def _receive(request: web.Request) -> web.Response:
    await request.read()
    return web.Response()


if __name__ == "__main__":
    application = web.Application(client_max_size=_BODY_BYTES)
    application.router.add_post("/", _receive)
    web.run_app(application, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
