"""Ways to a server: addresses, encryption, WebSocket, credentials, servers in this process, and refusals."""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

import headrace
import headrace.aio
from tests.conftest import TWO_SHARDS, ended_well
from tests.encryption.certificates import ServerFiles
from tests.encryption.conftest import TLS, WEBSOCKET_TLS
from tests.ports import free_port
from tests.sdk.flavours import Flavour
from tests.server_process import PASSWORD, USERNAME, ServerProcess

USER = f"{USERNAME}:{PASSWORD}"


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, ServerFiles]]:
    directory = tmp_path_factory.mktemp("encrypted")
    files = ServerFiles(directory, trustme.CA())
    files.write()
    settings = TWO_SHARDS | TLS | WEBSOCKET_TLS | files.settings() | files.settings("WEBSOCKET_TLS")
    with ServerProcess(directory / "data", settings) as server:
        yield server, files
    ended_well(server)


async def works(flavour: Flavour, url: str, **options: Any) -> None:
    """Send and read through a client of this URL."""
    async with flavour.connect(url, **options) as client:
        name = f"s{time.monotonic_ns()}"
        await client.create_stream(name)
        await client.create_topic(name, "t")
        async with client.producer(name, "t") as producer:
            await (await producer.send(b"x" * 100_000))
        async with client.consumer(name, "t", group="g") as consumer:
            assert (await consumer.poll(timeout=60)).payloads() == [b"x" * 100_000]
        await client.delete_stream(name)


async def test_plain(flavour: Flavour, shared_server: ServerProcess) -> None:
    await works(flavour, f"headrace://{USER}@{shared_server.address}")
    await works(flavour, shared_server.address, username=USERNAME, password=PASSWORD)


async def test_the_environment(flavour: Flavour, shared_server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SERVER", shared_server.address)
    monkeypatch.setenv("HEADRACE_USERNAME", USERNAME)
    monkeypatch.setenv("HEADRACE_PASSWORD", PASSWORD)
    await works(flavour, None)  # type: ignore[arg-type] # as by default


async def test_a_websocket(flavour: Flavour, shared_server: ServerProcess) -> None:
    await works(flavour, f"headrace+ws://{USER}@{shared_server.websocket_address}")


async def test_the_first_address_is_dead(flavour: Flavour, shared_server: ServerProcess) -> None:
    await works(flavour, f"headrace://{USER}@127.0.0.1:{free_port()},{shared_server.address}")


async def test_an_address_that_does_not_answer_costs_its_time_and_no_more(
    flavour: Flavour, shared_server: ServerProcess
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"headrace://{USER}@127.0.0.1:{silent.getsockname()[1]},{shared_server.address}"
        began = time.monotonic()
        # The other address has the same time for its answer, and is tried again on a busy machine.
        async with flavour.connect(
            url, options=headrace.ClientOptions(connect_timeout=1, connect_attempts=10)
        ) as client:
            await client.ping()
        assert 1 <= time.monotonic() - began < 60


@pytest.mark.parametrize("scheme", ["headrace+tls", "headrace+wss"])
async def test_encryption(flavour: Flavour, encrypted: tuple[ServerProcess, ServerFiles], scheme: str) -> None:
    server, files = encrypted
    address = server.address if scheme == "headrace+tls" else server.websocket_address
    port = address.rpartition(":")[2]
    await works(flavour, f"{scheme}://{USER}@localhost:{port}?ca={files.authority_file}")
    await works(flavour, f"{scheme}://{USER}@127.0.0.1:{port}?ca={files.authority_file}&name=localhost")
    await works(flavour, f"{scheme}://{USER}@{address}?verify=no")


async def test_a_server_of_another_authority_is_refused(
    flavour: Flavour, encrypted: tuple[ServerProcess, ServerFiles], tmp_path: Path
) -> None:
    server, files = encrypted
    other = ServerFiles(tmp_path, trustme.CA())
    for url, problem in (
        (f"headrace+tls://{USER}@{server.address}?ca={other.authority_file}", "certificate"),
        (f"headrace+tls://{USER}@{server.address}?ca={files.authority_file}&name=elsewhere", "certificate"),
        (f"headrace+tls://{USER}@{server.address}?ca={tmp_path}/missing.pem", "missing.pem"),
    ):
        with pytest.raises((headrace.ConnectionFailed, headrace.InvalidArgument), match=problem):
            await works(flavour, url)


async def test_a_wrong_password_is_refused_at_once(flavour: Flavour, shared_server: ServerProcess) -> None:
    for url in (f"headrace://{USERNAME}:wrong@{shared_server.address}", f"headrace://no:no@{shared_server.address}"):
        with pytest.raises(headrace.LoginRefused, match="login was refused") as refused:
            await works(flavour, url)
        assert refused.value.code is not None
        assert not refused.value.retryable


async def test_a_token(flavour: Flavour, shared_server: ServerProcess) -> None:
    async with flavour.connect(f"headrace://{USER}@{shared_server.address}") as client:
        name = f"t{time.monotonic_ns()}"
        secret = await client.create_token(name, expiry=timedelta(hours=1))
        await works(flavour, shared_server.address, token=secret)
        await client.delete_token(name)
        with pytest.raises(headrace.LoginRefused):
            await works(flavour, shared_server.address, token=secret)


async def test_no_server(flavour: Flavour) -> None:
    url = f"headrace://{USER}@127.0.0.1:{free_port()}"
    with pytest.raises(headrace.ConnectionFailed, match=url.rpartition("@")[2]) as failed:
        await works(flavour, url)
    assert failed.value.retryable
    assert PASSWORD not in str(failed.value).replace(url, "")


async def test_something_else_listens_there(flavour: Flavour, shared_server: ServerProcess) -> None:
    options = headrace.ClientOptions(connect_timeout=2)
    for address in (shared_server.http_address, shared_server.grpc_address):
        with pytest.raises(headrace.ConnectionFailed):
            await works(flavour, f"headrace://{USER}@{address}", options=options)
    with pytest.raises(headrace.ConnectionFailed):
        await works(flavour, f"headrace+ws://{USER}@{shared_server.address}", options=options)


async def test_a_server_in_this_process(flavour: Flavour, tmp_path: Path) -> None:
    await works(flavour, "headrace+embedded://")
    async with flavour.connect(f"headrace+embedded://{tmp_path}/data") as client:
        await client.create_stream("kept")
    async with flavour.connect(f"headrace+embedded://{tmp_path}/data") as client:
        assert [stream.name for stream in await client.streams()] == ["kept"]
    async with flavour.connect(f"headrace+embedded://anna:a%20secret@{tmp_path}/hers") as client:
        assert [user.username for user in await client.users()] == ["anna"]


async def test_a_closed_client_says_so(flavour: Flavour, shared_server: ServerProcess) -> None:
    async with flavour.connect(f"headrace://{USER}@{shared_server.address}") as client:
        await client.close()
        with pytest.raises(headrace.ClientClosed):
            await client.ping()
        await client.close()


async def test_a_client_that_is_not_connected_says_so(shared_server: ServerProcess) -> None:
    client = headrace.aio.connect(f"headrace://{USER}@{shared_server.address}")
    with pytest.raises(headrace.ClientClosed, match="use `async with`, or await it"):
        await client.ping()
    with pytest.raises(headrace.ClientClosed, match="use `async with`, or await it"):
        client.producer("s", "t")
    await client
    await client.ping()
    producer = client.producer("s", "t")
    # A producer opens with its first message: there is no such topic.
    with pytest.raises(headrace.NotFound):
        await producer.send(b"x")
    await client.close()


async def test_a_user_that_is_deleted_is_refused_from_then_on(flavour: Flavour, shared_server: ServerProcess) -> None:
    async with flavour.connect(f"headrace://{USER}@{shared_server.address}") as root:
        name = f"u{time.monotonic_ns()}"
        await root.create_user(name, "a secret")
        async with flavour.connect(f"headrace://{name}:a%20secret@{shared_server.address}") as client:
            await client.ping()
            await root.delete_user(name)
            with pytest.raises((headrace.LoginRefused, headrace.PermissionDenied)):
                await client.stats()


def test_nothing_is_left_of_many_clients(shared_server: ServerProcess) -> None:
    url = f"headrace://{USER}@{shared_server.address}"

    def once() -> None:
        with headrace.connect(url) as client:
            client.ping()

    once()
    gc.collect()
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208 - names only
    for _ in range(20):
        once()
    deadline = time.monotonic() + 10
    while len(os.listdir("/proc/self/fd")) > descriptors:  # noqa: PTH208 - as above
        assert time.monotonic() < deadline, "descriptors stay open"
        gc.collect()
    assert threading.active_count() == threads
