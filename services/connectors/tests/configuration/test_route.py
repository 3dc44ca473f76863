"""The transform `route` while its mapping changes (CON-13)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from headrace_connectors.contract import Record
from headrace_connectors.transforming import transformed
from headrace_connectors.transforms.route import MappingUnavailable, Route, RouteSettings


class Mappings:
    """Answers with a mapping, an error, or 304."""

    def __init__(self) -> None:
        self.topic: str | None = "one"
        self.tag: str | None = '"1"'
        self.body: bytes | None = None
        self.statuses: list[int] = []
        self.asked = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        headers = {} if self.tag is None else {"ETag": self.tag}
        if self.topic is None:
            response = web.Response(status=500, text="broken")
        elif self.tag is not None and request.headers.get("If-None-Match") == self.tag:
            response = web.Response(status=304, headers=headers)
        elif self.body is not None:
            response = web.Response(body=self.body, headers=headers)
        else:
            response = web.json_response({"a": {"stream": "s", "topic": self.topic}}, headers=headers)
        self.statuses.append(response.status)
        self.asked.set()
        return response

    def become(self, topic: str | None, tag: str | None, body: bytes | None = None) -> None:
        self.topic, self.tag, self.body = topic, tag, body
        self.statuses.clear()

    async def asked_again(self, count: int = 2) -> None:
        """Wait until it was asked so many times since the last change."""
        async with asyncio.timeout(30):
            while len(self.statuses) < count:
                self.asked.clear()
                await self.asked.wait()


@pytest.fixture
async def mappings() -> Mappings:
    return Mappings()


@pytest.fixture
async def address(mappings: Mappings) -> AsyncIterator[URL]:
    """Address of the mapping."""

    async def moved(_request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/m"})

    application = web.Application()
    application.router.add_get("/m", mappings.answer)
    application.router.add_get("/moved", moved)
    async with TestServer(application) as server:
        yield server.make_url("/m")


@pytest.fixture
async def route(address: URL) -> AsyncIterator[Callable[..., Any]]:
    """Opens transforms that read the mapping; they are closed at the end."""
    opened: list[Route] = []

    async def open_route(**settings: Any) -> Route:
        values = {"topic_field": "kind", "mapping_url": str(address), **settings}
        found = Route(RouteSettings.model_validate(values))
        opened.append(found)
        await found.open()
        return found

    yield open_route
    for one in opened:
        await one.close()


def routed(route: Route, count: int = 1) -> list[tuple[str | None, Any]]:
    """Topic and tag of the records of a batch."""
    route.begin_batch()
    records = [made for _ in range(count) for made in transformed(Record({"kind": "a"}), [route])]
    return [
        (one.destination.topic if one.destination else None, (one.headers or {}).get("mapping_epoch"))
        for one in records
    ]


async def test_without_an_interval_it_is_read_once(route: Callable[..., Any], mappings: Mappings) -> None:
    """CON-3: the mapping is that of the start, and records have no tag."""
    found = await route()
    mappings.become("two", '"2"')
    assert routed(found) == [("one", None)]
    assert mappings.statuses == []


async def test_another_mapping_takes_effect_with_a_new_epoch(route: Callable[..., Any], mappings: Mappings) -> None:
    """CON-32: it is asked for with the ETag, and records are tagged."""
    found = await route(reload_interval="100 ms")
    assert routed(found) == [("one", "1")]
    await mappings.asked_again(3)
    assert set(mappings.statuses[1:]) == {304}
    mappings.become("two", '"2"')
    await mappings.asked_again()
    assert routed(found, 2) == [("two", "2")] * 2
    assert found.report() | {"checked_at": None} == {"epoch": "2", "checked_at": None, "error": None}


async def test_a_redirect_is_not_followed(route: Callable[..., Any], mappings: Mappings, address: URL) -> None:
    """A redirect names a server that the settings, and the destinations that the pipeline file allows, do not name."""
    with pytest.raises(MappingUnavailable, match=r"answered 302, a redirect: correct settings\.mapping_url"):
        await route(mapping_url=str(address.with_path("/moved")))
    assert mappings.statuses == []


async def test_a_batch_is_never_split(route: Callable[..., Any], mappings: Mappings) -> None:
    """CON-32: a mapping that arrives within a batch waits for the next one."""
    found = await route(reload_interval="100 ms")
    found.begin_batch()
    before = found.apply(Record({"kind": "a"}))
    mappings.become("two", '"2"')
    await mappings.asked_again()
    after = found.apply(Record({"kind": "a"}))
    assert before.destination == after.destination
    assert before.headers == after.headers == {"mapping_epoch": "1"}
    assert routed(found) == [("two", "2")]


@pytest.mark.parametrize(
    ("topic", "body", "error"),
    [
        (None, None, "answered 500: broken"),
        ("x", b"{", "is not a mapping"),
        ("x", b'{"\xff": 1}', "is not a mapping"),
        ("x", b"{}", "is an empty mapping"),
    ],
)
async def test_a_failed_reading_keeps_the_old_one(
    route: Callable[..., Any], mappings: Mappings, topic: str | None, body: bytes | None, error: str
) -> None:
    """CON-32: the status has the reason until it can be read again."""
    found = await route(reload_interval="100 ms")
    mappings.become(topic, '"2"', body)
    await mappings.asked_again()
    assert routed(found) == [("one", "1")]
    assert error in found.report()["error"]
    assert found.report()["epoch"] == "1"
    mappings.become("three", '"3"')
    await mappings.asked_again()
    assert routed(found) == [("three", "3")]
    assert found.report()["error"] is None


async def test_a_server_without_etags(route: Callable[..., Any], mappings: Mappings) -> None:
    """CON-32: the epoch is a digest of the mapping, so that the same mapping has the same epoch."""
    mappings.tag = None
    found = await route(reload_interval="100 ms")
    ((_, first),) = routed(found)
    mappings.become("two", None)
    await mappings.asked_again()
    ((topic, second),) = routed(found)
    assert (topic, len(first), first != second) == ("two", 16, True)
    mappings.become("one", None)
    await mappings.asked_again()
    assert routed(found) == [("one", first)]


async def test_a_large_mapping_is_read_to_its_end(
    route: Callable[..., Any], mappings: Mappings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CON-3: it does not arrive at once."""
    entries = {f"k{number}": {"stream": "s", "topic": "t"} for number in range(30_000)}
    mappings.body = json.dumps({**entries, "a": {"stream": "s", "topic": "last"}}).encode()
    assert routed(await route()) == [("last", None)]
    monkeypatch.setattr("headrace_connectors.transforms.route._BODY_BYTES_MAX", len(mappings.body))
    assert routed(await route()) == [("last", None)]
    mappings.body += b" "
    with pytest.raises(MappingUnavailable, match=f"has more than {len(mappings.body) - 1} bytes"):
        await route()


@pytest.mark.parametrize(
    ("topic", "body", "error"),
    [
        (None, None, "answered 500"),
        ("x", b"{", "is not a mapping"),
        ("x", b"{}", "is an empty mapping"),
        ("x", b" " * 11, "has more than 10 bytes"),
    ],
)
async def test_failures_name_no_secret_of_the_address(
    route: Callable[..., Any],
    mappings: Mappings,
    monkeypatch: pytest.MonkeyPatch,
    address: URL,
    topic: str | None,
    body: bytes | None,
    error: str,
) -> None:
    mappings.become(topic, None, body)
    monkeypatch.setattr("headrace_connectors.transforms.route._BODY_BYTES_MAX", 10)
    secret = address.with_user("anna").with_password("hunter2").with_query(token="hunter3")
    with pytest.raises(MappingUnavailable) as caught:
        await route(mapping_url=str(secret))
    assert str(caught.value).startswith(f"{address} {error}")
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://anna:hunter2@127.0.0.1:1/m?token=hunter3", "http://127.0.0.1:1/m cannot be read: Cannot connect"),
        ("http://anna:hunter2@[/m", "the address cannot be read: it is no address"),
        ("http://anna:hunter/2@host/m", "the address cannot be read: it is no address"),
    ],
)
async def test_an_address_that_is_not_reached_is_shown_without_secrets(
    route: Callable[..., Any], url: str, error: str
) -> None:
    with pytest.raises(MappingUnavailable) as caught:
        await route(mapping_url=url)
    assert str(caught.value).startswith(error)
    assert "hunter" not in str(caught.value)


async def test_the_log_names_no_secret_of_the_address(
    route: Callable[..., Any], mappings: Mappings, address: URL, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "headrace_connectors")
    await route(mapping_url=str(address.with_query(token="hunter3")), reload_interval="100 ms")
    mappings.become("two", '"2"')
    await mappings.asked_again()
    assert f"the mapping of {address} has the epoch 2" in caplog.text
    assert "hunter" not in caplog.text


async def test_a_payload_that_is_not_json_has_no_destination(route: Callable[..., Any]) -> None:
    found = await route()
    for payload in (b'"\xff"', b"[" * 2000):
        assert found.apply(Record(payload)).destination is None


async def test_headers_of_the_source_stay(route: Callable[..., Any]) -> None:
    found = await route(reload_interval="1 h", epoch_header="e")
    assert found.apply(Record({"kind": "a"}, headers={"x": 1})).headers == {"x": 1, "e": "1"}
    assert (await route(reload_interval="1 h", epoch_header="")).apply(Record({"kind": "a"})).headers is None


async def test_it_ends_with_its_connector(route: Callable[..., Any], mappings: Mappings) -> None:
    found = await route(reload_interval="100 ms")
    await found.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "route-mapping"]
    mappings.become(None, None)
    with pytest.raises(MappingUnavailable, match="answered 500"):
        await route(reload_interval="100 ms")
