"""CON-43: writing of points over HTTP, with raw requests and with the client of InfluxDB."""

from __future__ import annotations

import asyncio
import contextlib
import gzip

import aiohttp
import pytest
from influxdb_client import InfluxDBClient, Point
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException
from pydantic import ValidationError

from headrace_connectors.contract import Opaque
from headrace_connectors.sources.influxdb.endpoint import InfluxEndpoint, InfluxEndpointSettings


@contextlib.asynccontextmanager
async def endpoint(**settings):
    """A source whose batches are stored as long as the block lasts, and its address; with the records."""
    source = InfluxEndpoint(InfluxEndpointSettings(address="127.0.0.1:0", **settings))
    await source.open(None)
    records = []

    async def store():
        while True:
            records.extend((await source.poll()).records)
            await source.commit()

    storing = asyncio.create_task(store())
    try:
        yield f"http://{source.address}", records
    finally:
        storing.cancel()
        await source.close()


async def written(url: str, body: bytes, path: str = "/write?db=d", **headers: str):
    async with aiohttp.ClientSession(url) as session, session.post(path, data=body, headers=headers) as answer:
        text = await answer.json() if answer.content_type == "application/json" else await answer.text()
        return answer.status, text, answer.headers


async def test_a_page_in_a_browser_is_refused_without_credentials():
    page = {"Content-Type": "text/plain", "Origin": "https://elsewhere.example"}
    async with endpoint() as (url, records):
        assert (await written(url, b"m f=1 1", **page))[0] == 403
        assert not records
    async with endpoint(token="t") as (url, records):
        assert (await written(url, b"m f=1 1", **page, Authorization="Token t"))[0] == 204
    assert len(records) == 1


async def test_points_are_records():
    async with endpoint() as (url, records):
        body = b"cpu,host=a load=0.5 1\ncpu,host=b load=1i 2"
        assert (await written(url, body, "/write?db=d&rp=r&precision=s"))[0] == 204
        assert (await written(url, body, "/api/v2/write?org=o&bucket=d/r&precision=s"))[0] == 204
        assert (await written(url, gzip.compress(b"m f=1 1"), **{"Content-Encoding": "gzip"}))[0] == 204
        assert (await written(url, b"\n# nothing\n"))[0] == 204
    assert records[0].payload == {
        "measurement": "cpu",
        "tags": {"host": "a"},
        "fields": {"load": 0.5},
        "timestamp_ns": 10**9,
        "bucket": "d/r",
    }
    assert records[0].table == "cpu"
    assert [record.id for record in records[:2]] == [record.id for record in records[2:4]]
    assert len({record.id for record in records}) == 3
    assert records[4].payload["measurement"] == "m"


async def test_the_client_of_influxdb_writes():
    async with endpoint(token="secret") as (url, records):

        def write() -> None:
            with InfluxDBClient(url, token="secret", org="o", enable_gzip=True) as client:
                assert client.ping()
                api = client.write_api(write_options=SYNCHRONOUS)
                point = Point("my, m").tag("a = b", "c,d e").field("text", 'x "y" \\ z\n2').field("n", 3).time(7)
                api.write("b", record=[point, {"measurement": "m", "fields": {"f": 1.5}, "time": 8}])
                with pytest.raises(ApiException) as caught:
                    api.write("b", record="m f=1 1\nm f=wrong 2")
                assert caught.value.status == 400
                assert '"line": 2' in caught.value.body
            with InfluxDBClient(url, token="wrong", org="o") as client, pytest.raises(ApiException) as caught:
                client.write_api(write_options=SYNCHRONOUS).write("b", record="m f=1 1")
            assert caught.value.status == 401

        await asyncio.to_thread(write)
    assert [record.payload for record in records] == [
        {
            "measurement": "my, m",
            "tags": {"a = b": "c,d e"},
            "fields": {"text": 'x "y" \\ z\n2', "n": 3},
            "timestamp_ns": 7,
            "bucket": "b",
        },
        {"measurement": "m", "tags": {}, "fields": {"f": 1.5}, "timestamp_ns": 8, "bucket": "b"},
    ]


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "message"),
    [
        ("/write?db=d", b"m f=1\nm f=x", {}, 400, "unable to parse line 2: the field 'f' is neither"),
        ("/write?db=d&precision=days", b"m f=1", {}, 400, "precision 'days' is not one of n, ns"),
        ("/write?db=d", b"not gzip", {"Content-Encoding": "gzip"}, 400, "the body cannot be read"),
        ("/write?db=d", b"m f=1\n" * 200, {}, 413, "a request has at most 1 KiB"),
        (
            "/write?db=d",
            gzip.compress(b"m f=1\n" * 200, mtime=0),
            {"Content-Encoding": "gzip"},
            413,
            "a request has at most",
        ),
        ("/api/v2/write?bucket=b", b"m", {}, 400, "unable to parse line 1: there are no fields"),
    ],
)
async def test_requests_that_are_refused(path, body, headers, status, message):
    async with endpoint(max_body=1024) as (url, records):
        found, document, answer = await written(url, body, path, **headers)
        assert found == status
        assert message in document["message" if "v2" in path else "error"]
        assert message[:40] in answer["X-Influxdb-Error"]
        assert records == []


@pytest.mark.parametrize(
    ("path", "header", "status"),
    [
        ("/write", "Token secret", 204),
        ("/write", "Bearer secret", 204),
        ("/write", "Basic YW5uYTpwYXNzd29yZA==", 204),
        ("/write?u=anna&p=password", "", 204),
        ("/write?u=any&p=secret", "", 204),
        ("/write", "", 401),
        ("/write", "Token wrong", 401),
        ("/write", "Basic ?", 401),
        ("/write", "Basic YW5uYTp3cm9uZw==", 401),
        ("/write?u=anna&p=", "", 401),
    ],
)
async def test_callers_are_known_by_token_or_password(path, header, status):
    async with endpoint(token="secret", username="anna", password="password") as (url, _):
        found, _, headers = await written(url, b"m f=1", path, Authorization=header)
        assert found == status
        assert ("WWW-Authenticate" in headers) == (status == 401)


async def test_what_clients_ask_before_they_write():
    async with endpoint() as (url, _), aiohttp.ClientSession(url) as session:
        async with session.get("/ping") as answer:
            assert (answer.status, "X-Influxdb-Version" in answer.headers) == (204, True)
        async with session.get("/health") as answer:
            assert (await answer.json())["status"] == "pass"
        async with session.post("/query", data={"q": 'CREATE DATABASE "telegraf"'}) as answer:
            assert (answer.status, await answer.json()) == (200, {"results": [{"statement_id": 0}]})
        async with session.get("/query", params={"q": "SELECT 1"}) as answer:
            assert answer.status == 400
    async with (
        endpoint(token="secret") as (url, _),
        aiohttp.ClientSession(url) as session,
        session.post("/query", data={"q": "CREATE DATABASE x"}) as answer,
    ):
        assert answer.status == 401


async def test_no_body_is_read_of_a_caller_that_is_not_known():
    async with endpoint(token="secret") as (url, _):
        host, _, port = url.removeprefix("http://").partition(":")
        for path in ("/query", "/write"):
            reader, writer = await asyncio.open_connection(host, int(port))
            form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n"
            writer.write(f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{form}\r\n".encode())
            assert b" 401 " in await asyncio.wait_for(reader.readline(), 5)
            writer.close()


async def test_a_statement_whose_body_is_on_its_way_counts_as_a_request():
    async with endpoint(max_requests=1) as (url, _), aiohttp.ClientSession(url) as session:
        host, _, port = url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n"
        writer.write(f"POST /query HTTP/1.1\r\nHost: {host}\r\n{form}\r\n".encode())
        assert b" 100 " in await asyncio.wait_for(reader.readline(), 5)
        async with session.post("/query", data={"q": "CREATE DATABASE x"}) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
        writer.close()


async def test_points_that_are_not_stored_are_to_be_sent_again():
    source = InfluxEndpoint(InfluxEndpointSettings(address="127.0.0.1:0", max_waiting=1536))
    assert source.mode() == Opaque()
    await source.open(None)
    url = f"http://{source.address}"
    first = asyncio.create_task(written(url, b"m f=1 1" + b"\n" * 600))
    await source.poll()
    second = asyncio.create_task(written(url, b"m f=2 1" + b"\n" * 600))
    again = await source.poll()
    assert len(again.records) == 1
    third = asyncio.create_task(written(url, b"m f=3 1" + b"\n" * 600))
    while not source._waiting:
        await asyncio.sleep(0)
    status, _, headers = await written(url, b"m f=4 1" + b"\n" * 600)
    assert (status, headers["Retry-After"]) == (429, "1")
    await source.close()
    for call in (first, second, third):
        status, document, headers = await call
        assert (status, headers["Retry-After"]) == (503, "1")
        assert "could not be stored now" in document["error"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"address": "0.0.0.0:8086"}, "token, or username and password, are needed"),
        ({"address": "0.0.0.0:8086", "token": "fifteen letters"}, "token has 16 bytes at least"),
        ({"address": "0.0.0.0:8086", "username": "anna", "password": "short"}, "password has 16 bytes at least"),
        ({"username": "anna"}, "username and password belong together"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValidationError, match=message):
        InfluxEndpointSettings(**settings)


async def test_a_request_has_a_maximum_of_points():
    async with endpoint(max_records=3) as (url, records):
        status, document, _ = await written(url, b"m f=1 1\nm f=2 2\nm f=3 3\nm f=4 4\n")
        assert (status, document["error"]) == (413, "a request has at most 3 records: send several")
        assert not records
        assert (await written(url, b"m f=1 1\nm f=2 2\nm f=3 3\n"))[0] == 204
    assert len(records) == 3
