"""The webhook: real requests, answered when their records are stored."""

from __future__ import annotations

import asyncio
import contextlib
import time

import aiohttp
import pytest

from headrace_connectors.codecs.plain import JsonCodec
from headrace_connectors.contract import ConnectorError, Opaque, Settings
from headrace_connectors.sources.webhook import Webhook, WebhookSettings
from headrace_settings import Address


@contextlib.asynccontextmanager
async def webhook(**settings):
    source = Webhook(WebhookSettings(address="127.0.0.1:0", **settings))
    await source.open(None)
    async with aiohttp.ClientSession(f"http://{source.address}") as session:
        try:
            yield source, session
        finally:
            await source.close()


async def answer(request):
    async with await request as response:
        return response.status, await response.json(), response.headers


def post(session, body, **headers):
    return asyncio.create_task(
        answer(session.post("/", data=body, headers={"Content-Type": "application/json", **headers}))
    )


async def test_numbers_are_as_they_were_written():
    """Regression: 12345678901234567.89 became 1.2345678901234568e16."""
    body = b'{"a":12345678901234567.89,"b":[1.50,1e400,123456789012345678901234567890]}'
    async with webhook() as (source, session):
        call = post(session, body)
        (record,) = (await source.poll()).records
        assert JsonCodec(Settings()).encode(record.payload) == body
        await source.commit()
        await call


async def test_callers_are_answered_when_their_records_are_stored():
    async with webhook() as (source, session):
        assert source.mode() == Opaque()
        calls = [post(session, b'{"n": 1}'), post(session, b'[{"n": 2}, {"n": 3}]')]
        lines = post(session, b'{"n": 4}\n\n{"n": 5}\n', **{"Content-Type": "application/x-ndjson"})
        records = []
        while len(records) < 5:
            records += (await source.poll()).records
            assert not any(call.done() for call in calls[len(records) :])
            await source.commit()
        assert sorted(record.payload["n"] for record in records) == [1, 2, 3, 4, 5]
        assert len({record.id for record in records}) == 5
        assert [(await call)[:2] for call in calls] == [(200, {"stored": 1}), (200, {"stored": 2})]
        assert (await lines)[1] == {"stored": 2}


async def test_a_page_in_a_browser_is_refused_without_credentials():
    """A form of any page reaches ports of this machine, and so does a name that resolves to it."""
    page = {"Content-Type": "text/plain", "Origin": "https://elsewhere.example"}
    async with webhook() as (_, session):
        status, document, _ = await post(session, b'{"n": 1}', **page)
        assert (status, document["detail"][:5]) == (403, "pages")
    async with webhook(token="t") as (source, session):
        sent = post(session, b'{"n": 1}', **page, Authorization="Bearer t")
        await source.poll()
        await source.commit()
        assert (await sent)[0] == 200


async def test_what_was_not_stored_is_refused_and_can_be_sent_again():
    async with webhook() as (source, session):
        first = post(session, b'{"n": 1}', **{"Idempotency-Key": "a"})
        batch = await source.poll()
        following = asyncio.create_task(source.poll())
        status, _, headers = await first
        assert (status, headers["Retry-After"]) == (503, "1")
        again = post(session, b'{"n": 1}', **{"Idempotency-Key": "a"})
        assert (await following).records[0].id == batch.records[0].id
        await source.commit()
        assert (await again)[0] == 200


async def test_after_a_failure_batches_begin_with_one_request():
    """One request may be the reason; if it is not, all are stored or refused together again."""

    async def waiting(source, session, *numbers):
        calls = [post(session, b"%d" % number) for number in numbers]
        while len(source._waiting) < len(numbers):
            await asyncio.sleep(0)
        return calls

    async with webhook() as (source, session):
        calls = await waiting(source, session, 1, 2)
        assert len((await source.poll()).records) == 2
        await source.rewind()
        assert [(await call)[0] for call in calls] == [503, 503]
        calls = await waiting(source, session, *range(6))
        for count in (1, 2, 3):
            assert len((await source.poll()).records) == count
            await source.commit()
        assert {(await call)[0] for call in calls} == {200}
        calls = await waiting(source, session, 1, 2)
        await source.poll()
        await source.rewind()
        assert [(await call)[0] for call in calls] == [503, 503]
        calls = await waiting(source, session, *range(6))
        assert len((await source.poll()).records) == 1
        assert len((await source.poll()).records) == 5
        await source.commit()
        assert sorted([(await call)[0] for call in calls]) == [200] * 5 + [503]


async def test_too_much_at_once_is_refused():
    async with webhook(max_waiting=1024) as (source, session):
        waiting = [post(session, b'"%s"' % (b"x" * 400)) for _ in range(2)]
        while len(source._waiting) < 2:
            await asyncio.sleep(0)
        status, _, headers = await post(session, b'"%s"' % (b"x" * 400))
        assert (status, headers["Retry-After"]) == (429, "1")
        await source.poll()
        await source.commit()
        assert [(await call)[0] for call in waiting] == [200, 200]


async def test_a_caller_who_has_gone_leaves_nothing_behind():
    async with webhook() as (source, session):
        call = post(session, b'{"n": 1}')
        while not source._waiting:
            await asyncio.sleep(0)
        call.cancel()
        while source._waiting:
            await asyncio.sleep(0)
        assert source._held_bytes == source._held_requests == 0


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"\xff", {}, 400),
        (b'"\xff"', {}, 400),
        (b"[" * 1024, {}, 400),
        (b"[]", {}, 200),
        (b"x" * 2000, {}, 413),
        (b"{}", {"Authorization": "Bearer wrong"}, 401),
        (b"{}", {"Authorization": ""}, 401),
    ],
)
async def test_other_requests(body, headers, status):
    async with webhook(token="secret", max_body=1024) as (_, session):
        given = {"Authorization": "Bearer secret", **headers}
        assert (await post(session, body, **given))[0] == status


async def test_guesses_are_few():
    """Regression: any caller could try any number of tokens. Who sends none at all has not guessed."""
    async with webhook(token="secret") as (_, session):
        for _ in range(30):
            assert (await post(session, b"{}"))[0] == 401
        statuses = [(await post(session, b"{}", Authorization=f"Bearer {number}"))[0] for number in range(22)]
        assert statuses == [401] * 20 + [429] * 2
        # The right one is refused as well: otherwise the limit would be none.
        status, _, headers = await post(session, b"[]", Authorization="Bearer secret")
        assert status == 429
        assert 1 <= int(headers["Retry-After"]) <= 10
    async with webhook(token="secret") as (_, session):
        assert (await post(session, b"[]", Authorization="Bearer secret"))[0] == 200
        statuses = {(await post(session, b"{}", Authorization="Bearer x"))[0] for _ in range(30)}
        assert statuses == {401}, "who shares the address of a caller does not lock him out"


async def test_those_who_wait_at_a_stop_are_refused():
    async with webhook() as (source, session):
        calls = [post(session, b'{"n": 1}') for _ in range(3)]
        await source.poll()
        while len(source._waiting) + sum(map(len, source._flight.positions)) < 3:
            await asyncio.sleep(0)
        await source.close()
        assert [(await call)[0] for call in calls] == [503, 503, 503]


async def test_an_address_in_use_is_reported():
    async with webhook() as (source, _):
        other = Webhook(WebhookSettings(address=Address.parse(str(source.address))))
        with pytest.raises(ConnectorError, match="cannot listen on"):
            await other.open(None)
        await other.close()


async def test_requests_are_counted_while_their_bodies_arrive():
    """CON-24: a body that arrives slowly holds its size from the beginning; without a length, the maximum."""

    async def slow(begun, rest):
        begun.set()
        yield b"["
        await rest.wait()
        yield b"1]"

    async with webhook(max_waiting=2048, max_body=1024) as (source, session):
        begun, rest = [asyncio.Event(), asyncio.Event()], asyncio.Event()
        calls = [post(session, slow(one, rest)) for one in begun]
        while source._held_requests < 2:
            await asyncio.sleep(0)
        assert (await post(session, b"2"))[0] == 429
        rest.set()
        stored = 0
        while stored < 2:
            stored += len((await source.poll()).records)
            await source.commit()
        assert [(await call)[0] for call in calls] == [200, 200]
        assert source._held_bytes == 0


async def test_a_batch_that_is_being_stored_counts():
    async with webhook(max_requests=2) as (source, session):
        calls = [post(session, b"1"), post(session, b"2")]
        while source._held_requests < 2:
            await asyncio.sleep(0)
        await source.poll()
        assert (await post(session, b"3"))[0] == 429
        while sum(map(len, source._flight.positions)) < 2:
            await source.commit()
            await source.poll()
        await source.commit()
        assert [(await call)[0] for call in calls] == [200, 200]
        again = post(session, b"3")
        await source.poll()
        await source.commit()
        assert (await again)[0] == 200


@contextlib.asynccontextmanager
async def longest_pause():
    """The longest time for which the event loop did nothing else, in seconds of its thread, in a list."""
    longest = [0.0]
    # Time of the processor: what else the machine does is no pause of the loop's own.
    turned_at = time.thread_time()

    def note():
        nonlocal turned_at
        now = time.thread_time()
        longest[0], turned_at = max(longest[0], now - turned_at), now

    async def watch():
        while True:
            await asyncio.sleep(0.01)
            note()

    watching = asyncio.create_task(watch())
    try:
        yield longest
    finally:
        watching.cancel()
        # The block may end in the turn that was long.
        note()


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b"[" + b",".join([b"1"] * 500_000) + b"]", "application/json"),
        (b"1\n" * 500_000, "application/x-ndjson"),
    ],
    ids=["array", "lines"],
)
async def test_a_request_has_a_maximum_of_records(body, media_type):
    """Regression: half a million records in 1 MiB were decoded and stored, which took the event loop for seconds."""
    async with webhook() as (source, session), longest_pause() as longest:
        status, document, _ = await post(session, body, **{"Content-Type": media_type})
        assert (status, document["detail"]) == (413, "a request has at most 10000 records: send several")
        assert not source._waiting
    assert longest[0] < 0.5


async def test_a_batch_has_a_maximum_of_records():
    async with webhook(max_records=3) as (source, session):
        calls = [post(session, b"[1, 2]"), post(session, b"[3]"), post(session, b"[4, 5]")]
        while len(source._waiting) < 3:
            await asyncio.sleep(0)
        for count in (3, 2):
            assert len((await source.poll()).records) == count
            await source.commit()
        assert [(await call)[0] for call in calls] == [200, 200, 200]
