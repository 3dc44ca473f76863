"""No secret is written anywhere, whatever the request and the log level (CTL-9, GW-9)."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from pathlib import Path

import grpc
import pytest
from aiohttp import ClientSession

from headrace_core import encode_change_password
from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, access_token
from tests.apis.http.api import Api
from tests.apis.push.browser import Refusal, connected
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection
from tests.compatibility.protocol.websocket import WebSocketConnection
from tests.conftest import StartServer
from tests.encryption.quic_caller import calling
from tests.server_process import PASSWORD, USERNAME, ServerProcess

# Each secret is unique: none of them is part of another text.
OF_THE_SETTINGS = "5ecret-of-the-settings-0123456789abcdef"
GUESS = "5ecret-that-is-wrong"
OF_BOB, NEW_OF_BOB = "5ecret-of-bob", "5ecret-of-bob-now"
SETTINGS = {
    "SYSTEM_LOGGING_LEVEL": "debug",
    "SYSTEM_LOGGING_FORMAT": "json",
    "HTTP_ACCESS_LOG": "true",
    "HTTP_JWT_ENCODING_SECRET": OF_THE_SETTINGS,
}


class Secrets:
    """Secrets to search for, as text, hexadecimal, base64 and decimal bytes."""

    def __init__(self) -> None:
        self.texts: list[str] = [OF_THE_SETTINGS, GUESS, OF_BOB, NEW_OF_BOB]

    def found_in(self, place: object, contents: bytes) -> list[str]:
        """Secrets that are found in the contents of a place."""
        ways = [(text, form) for text in self.texts for form in _forms(text)]
        return [f"{text[:12]}... in {place}" for text, form in ways if form in contents]


def _forms(text: str) -> tuple[bytes, ...]:
    raw = text.encode()
    return raw, raw.hex().encode(), base64.b64encode(raw), str(list(raw))[1:-1].encode()


def over_binary(connection: RawConnection, secrets: Secrets) -> None:
    """Use a wrong and a right password, and create and use a token."""
    assert connection.status(Code.LOGIN_USER, frames.login("bob", GUESS)) == Status.INVALID_CREDENTIALS
    # A malformed frame with a password in it.
    connection.status(Code.LOGIN_USER, frames.login(USERNAME, GUESS)[:-9])
    connection.ok(Code.LOGIN_USER, frames.login("bob", OF_BOB))
    token = access_token(connection, f"of {type(connection).__name__}")
    secrets.texts.append(token)
    connection.ok(Code.LOGOUT_USER)
    connection.ok(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, bytes([len(token)]) + token.encode())


async def over_http_and_push(server: ServerProcess, session: ClientSession, secrets: Secrets) -> None:
    anonymous = Api(session, server.http_url)
    bob = await anonymous.login("bob", OF_BOB)
    assert bob.token is not None
    secrets.texts.append(bob.token)
    assert (await anonymous("POST", "/users/login", {"username": "bob", "password": GUESS})).status == 400
    assert (await anonymous("POST", "/users/login", {"username": "bob", "passwort": GUESS})).status == 422
    assert (await anonymous("GET", "/streams", token=f"{bob.token}x")).status == 401
    assert (await anonymous("POST", "/users/refresh-token", {"token": f"{bob.token}x"})).status == 401
    made = await bob.ok("POST", "/personal-access-tokens", {"name": "pat", "expiry": 0})
    secrets.texts.append(made["token"])
    await anonymous.ok("POST", "/personal-access-tokens/login", {"token": made["token"]})
    async with connected(anonymous) as forger:
        with pytest.raises(Refusal):
            await forger.login(f"{bob.token}x")
    async with connected(anonymous) as page:
        await page.login(made["token"])


def over_grpc(server: ServerProcess, secrets: Secrets) -> None:
    with GrpcCaller(server.grpc_address, None) as anonymous:
        with pytest.raises(grpc.RpcError):
            anonymous.login.Login(v1.LoginRequest(username="bob", password=GUESS))
        token = anonymous.login.Login(v1.LoginRequest(username="bob", password=OF_BOB)).token
    secrets.texts.append(token)
    with GrpcCaller(server.grpc_address, f"{token}x") as forger, pytest.raises(grpc.RpcError):
        forger.system.GetClusterMetadata(v1.GetClusterMetadataRequest())
    with GrpcCaller(server.grpc_address, token) as bob:
        bob.login.Logout(v1.LogoutRequest())


async def over_quic(server: ServerProcess) -> None:
    async with calling(server.quic_address) as caller:
        assert (await caller.request(Code.LOGIN_USER, frames.login("bob", GUESS))).status == Status.INVALID_CREDENTIALS
        await caller.ok(Code.LOGIN_USER, frames.login("bob", OF_BOB))


async def test_no_secret_is_in_the_log_in_the_diagnostics_or_on_disk(start_server: StartServer) -> None:
    """Scan after a use of each API, with everything logged that can be."""
    server = start_server(SETTINGS)
    secrets = Secrets()
    with RawConnection.as_root(server.address) as root:
        root.ok(Code.CREATE_USER, frames.create_user("bob", OF_BOB))
        for connection in (RawConnection(server.address), WebSocketConnection(server.websocket_address)):
            with connection:
                over_binary(connection, secrets)
        async with ClientSession() as session:
            await over_http_and_push(server, session, secrets)
            over_grpc(server, secrets)
            await over_quic(server)
            changed = {"user": "bob", "current_password": OF_BOB, "new_password": NEW_OF_BOB}
            root.ok(*encode_change_password(**changed))
            api = await Api(session, server.http_url).login()
            shown = [(path, (await api("GET", path)).body) for path in ("/settings", "/logs", "/metrics", "/users")]
            snapshot = (await api("POST", "/snapshot", {"compression": "Deflated", "snapshot_types": ["All"]})).body
    archive = zipfile.ZipFile(io.BytesIO(snapshot))
    shown += [(name, archive.read(name)) for name in archive.namelist()]
    assert OF_THE_SETTINGS.encode() in json.dumps(server.settings).encode(), "it is looked for where it would be found"
    assert secrets.found_in("a text", f"password={GUESS}".encode()) == [f"{GUESS[:12]}... in a text"]
    assert server.stop() == 0
    files = [path for path in [server.log, *server.data.rglob("*")] if path.is_file()]
    assert any(path.is_relative_to(server.data / "metadata") for path in files)
    shown += [(path, path.read_bytes()) for path in files]
    log = server.log.read_text(encoding="utf-8")
    assert "failed login as 'bob'" in log
    assert "POST /users/login" in log
    assert [line for place, contents in shown for line in secrets.found_in(place, contents)] == []


async def test_no_listener_takes_a_token_in_the_url(shared_server: ServerProcess) -> None:
    """Every proxy on the way would log a token in the URL."""
    async with ClientSession() as session:
        anonymous = Api(session, shared_server.http_url)
        token = (await anonymous.login()).token
        for name in ("token", "access_token", "authorization", "jwt"):
            assert (await anonymous("GET", f"/streams?{name}={token}")).status == 401
            socket = await session.ws_connect(f"{anonymous.url}/ws?{name}={token}", protocols=["headrace.v1.json"])
            await socket.send_json({"type": "ping", "id": 1})
            assert (await socket.receive_json())["code"] == Status.UNAUTHENTICATED
            await socket.close()


def test_the_data_directory_is_for_its_owner_only(server: ServerProcess) -> None:
    """Other users of the machine may not read messages, password hashes or token digests."""
    with RawConnection.as_root(server.address) as root:
        root.create_topic("private")
        root.send("private", "t", 0, b"m")
    # Files are replaced while it runs. Killed, it also leaves those that were being written.
    server.kill()
    paths = [server.data, *server.data.rglob("*")]
    assert len([path for path in paths if path.is_dir()]) > 5
    assert [path for path in paths if path.stat().st_mode & 0o077] == []


def test_the_programs_title_has_no_secret(server: ServerProcess) -> None:
    """Every user of the machine can see command lines."""
    command = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
    assert PASSWORD.encode() not in command.split(b"\0")
