"""Serves the page that shows delays as they are counted.

The page connects to the gateway itself: this program serves its files, the JavaScript client, and tokens of a user that
may only read one topic. The user is created at the start and deleted at the end.
"""

from __future__ import annotations

import argparse
import http.client
import json
import secrets
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from gateway import DELAYS, Gateway, GatewayError, add_arguments, password
from stopping import on_signals

PORT = 8700
READER = "flights-page"

_PAGE = Path(__file__).parent / "page"
_CLIENT = Path(__file__).resolve().parents[2] / "web/client/dist"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the options in `argv`; invalid ones end the program with status 2."""
    parser = argparse.ArgumentParser(prog="serve.py", description=__doc__)
    parser.add_argument("--port", type=int, default=PORT, help="of 127.0.0.1, for the page [%(default)s]")
    add_arguments(parser)
    return parser.parse_args(argv)


def pages() -> dict[str, tuple[str, bytes]]:
    """Return content type and content of the served files by path.

    Raises:
        FileNotFoundError: The client is not built.
    """
    if not (_CLIENT / "index.js").exists():
        raise FileNotFoundError("the client for JavaScript is not built: make setup does it")
    files = {f"/{path.name}": path for path in _PAGE.iterdir()}
    files |= {f"/client/{path.name}": path for path in _CLIENT.glob("*.js")}
    files["/"] = files.pop("/index.html")
    return {name: (_TYPES[path.suffix], path.read_bytes()) for name, path in files.items()}


class Server(ThreadingHTTPServer):
    """HTTP server for the files of the page and for tokens."""

    daemon_threads = True

    def __init__(self, options: argparse.Namespace, reader_secret: str) -> None:
        """Bind the port.

        Raises:
            OSError: The port is in use.
        """
        self._options = options
        self._reader_secret = reader_secret
        self.pages = pages()
        self.socket_url = f"ws://{options.http}/ws"
        super().__init__(("127.0.0.1", options.port), Handler)
        self.origin = f"http://127.0.0.1:{self.server_port}"

    def settings(self) -> bytes:
        """Return the settings of the page."""
        return json.dumps({"url": self.socket_url, "stream": self._options.stream, "topic": DELAYS}).encode()

    def token(self) -> bytes:
        """Return a new token of the read-only user.

        Raises:
            GatewayError: The gateway is unreachable, or the user does not exist.
        """
        with Gateway(self._options.http, READER, self._reader_secret) as gateway:
            return gateway.token.encode()


class Handler(BaseHTTPRequestHandler):
    """Handler of one browser connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        """Handle a GET request."""
        # Protection against DNS rebinding: reject other host names that resolve to this address.
        if self.headers.get("Host") != self.server.origin.removeprefix("http://"):
            self._answer(421, "text/plain", f"this is {self.server.origin}\n".encode())
        elif self.path in self.server.pages:
            self._answer(200, *self.server.pages[self.path])
        elif self.path == "/settings":
            self._answer(200, "application/json", self.server.settings())
        elif self.path == "/token":
            try:
                self._answer(200, "text/plain", self.server.token())
            except GatewayError as error:
                self._answer(502, "text/plain", f"{error}\n".encode())
        else:
            self._answer(404, "text/plain", b"there is nothing here\n")

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        policy = (
            f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' {self.server.socket_url}; "
            "img-src data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
        )
        for name, value in {
            "Content-Type": content_type,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Suppress log lines of successful requests."""


def check_origin(gateway_address: str, origin: str) -> None:
    """Check that the gateway accepts connections from pages of this origin.

    Raises:
        GatewayError: The gateway does not accept them, or is unreachable.
    """
    connection = http.client.HTTPConnection(gateway_address, timeout=10)
    try:
        headers = {
            "Origin": origin,
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        }
        connection.request("GET", "/ws", headers=headers)
        status = connection.getresponse().status
    except OSError as error:
        raise GatewayError(f"no gateway answers at {gateway_address}: {error}") from error
    finally:
        connection.close()
    if status == 403:
        raise GatewayError(
            f"the gateway at {gateway_address} takes no pages of {origin}: start it with "
            f"HEADRACE_PUSH_ALLOWED_ORIGINS='[{origin}]'"
        )


def say(text: str) -> None:
    """Print a line for the user."""
    sys.stderr.write(f"serve: {text}\n")


def main(argv: Sequence[str]) -> int:
    """Serve until Ctrl-C; returns the exit status."""
    options = parse(argv)
    reader_secret = secrets.token_urlsafe(24)
    try:
        server = Server(options, reader_secret)
        check_origin(options.http, server.origin)
        with Gateway(options.http, options.username, password()) as gateway:
            gateway.make_topics(options.stream)
            gateway.make_reader(options.stream, DELAYS, READER, reader_secret)
    except (GatewayError, OSError) as error:
        say(f"error: {error}")
        return 1
    stop = on_signals()
    threading.Thread(target=server.serve_forever, name="pages", daemon=True).start()
    say(f"the page is at {server.origin}/")
    stop.wait()
    server.shutdown()
    try:
        with Gateway(options.http, options.username, password()) as gateway:
            gateway.remove_user(READER)
    except GatewayError as error:
        say(f"the user {READER} could not be removed: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
