"""Components of the HTTP API that need no server (GW-4)."""

import asyncio
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_gateway.access.token_config import JwtConfig
from headrace_gateway.http.admission.rate_limits import RateLimits
from headrace_gateway.http.config import CorsConfig
from headrace_gateway.http.idempotency import IdempotencyKeys
from headrace_gateway.http.sessions.members import Members
from headrace_gateway.http.sizes import size_bytes, size_text
from headrace_gateway.json_api.errors import Limited, Refused, Rejected, code_name, precise_http_status
from headrace_node.connections.sessions import Response
from headrace_proto.errors import Status
from headrace_settings import Secret


class Clock:
    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1 KB"),
        (1024, "1 KiB"),
        (1001, "1.001 KB"),
        (10_000, "10 KB"),
        (3_211_776, "3136.5 KiB"),
        (1_000_001, "1000.001 KB"),
        (1_000_000_001, "1000000.001 KB"),
        (1024**3, "1 GiB"),
        (1024**2 * 1000, "1000 MiB"),
        (2**64 - 1, "18446744073709551.615 KB"),
    ],
)
def test_sizes_are_written_exactly(number, text):
    assert size_text(number) == text
    assert size_bytes(text) == number


@given(st.integers(0, 2**64 - 1))
def test_sizes_come_back(number):
    text = size_text(number)
    assert size_bytes(text) == number
    value = text.split()[0]
    assert -Decimal(value).as_tuple().exponent <= 3


def test_what_is_no_size():
    assert size_bytes("unlimited") == 2**64 - 1
    assert size_bytes("1.5 B") == 1
    for text in ("", "x", "1 XB", "-1 B", "1 kb ", "1.5.5 KB"):
        with pytest.raises(ValueError, match=r"is not a (size|unit of size)"):
            size_bytes(text)


def test_codes_have_names_and_statuses():
    assert code_name(1009) == "stream_id_not_found"
    assert code_name(999_999) == "error"
    for status in Status:
        if status != Status.OK:
            assert precise_http_status(status) in {400, 401, 403, 404, 409, 500, 503}


def test_buckets_fill_again(clock):
    limits = RateLimits(per_second=2, burst=3, now=clock)
    assert [limits.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert limits.take("b") == 0
    clock.seconds += 0.5
    assert [limits.take("a") for _ in range(2)] == [0, 0.5]
    clock.seconds += 1000
    assert [limits.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert RateLimits(per_second=0, burst=1, now=clock).take("a") == 0


@given(st.lists(st.floats(0, 2), max_size=100))
def test_no_user_gets_more_than_the_rate(pauses):
    clock = Clock()
    limits = RateLimits(per_second=5, burst=3, now=clock)
    taken = 0
    for pause in pauses:
        clock.seconds += pause
        taken += limits.take("a") == 0
    assert taken <= 3 + (clock.seconds - 1000) * 5 + 1e-6


class Appends:
    def __init__(self):
        self.count = 0
        self.failures = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self):
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop()
        self.count += 1


@pytest.fixture
def append():
    return Appends()


KEY = (0, "s\0t", "key")


async def test_keys_are_forgotten_in_time(clock, append):
    keys = IdempotencyKeys(count_max=10, ttl_seconds=60, now=clock)
    assert not await keys.once(KEY, b"x", append)
    clock.seconds += 59
    assert await keys.once(KEY, b"x", append)
    assert not await keys.once((1, "s\0t", "key"), b"x", append)
    assert not await keys.once((0, "s\0u", "key"), b"x", append)
    with pytest.raises(Rejected):
        await keys.once(KEY, b"y", append)
    clock.seconds += 1
    assert not await keys.once(KEY, b"y", append)
    assert append.count == 4


async def test_the_oldest_keys_are_forgotten_first(clock, append):
    keys = IdempotencyKeys(count_max=6, ttl_seconds=60, now=clock)
    for number in range(4):
        await keys.once((0, "", str(number)), b"x", append)
    assert [await keys.once((0, "", str(number)), b"x", append) for number in (3, 2, 1)] == [True] * 3
    assert not await keys.once((0, "", "0"), b"x", append)


async def test_a_batch_on_its_way_is_not_forgotten(clock, append):
    """An unfinished batch is evicted neither by age nor by newer keys, because its duplicate waits for it."""
    keys = IdempotencyKeys(count_max=2, ttl_seconds=60, now=clock)
    append.gate.clear()
    first = asyncio.ensure_future(keys.once(KEY, b"x", append))
    await asyncio.sleep(0.01)
    clock.seconds += 61
    others = [asyncio.ensure_future(keys.once((0, "", str(number)), b"x", append)) for number in range(4)]
    await asyncio.sleep(0.01)
    copy = asyncio.ensure_future(keys.once(KEY, b"x", append))
    await asyncio.sleep(0.01)
    append.gate.set()
    assert [await first, await copy] == [False, True]
    assert not any(await asyncio.gather(*others))
    assert append.count == 5


async def test_the_second_takes_the_place_of_a_first_that_fails(clock, append):
    keys = IdempotencyKeys(count_max=3, ttl_seconds=60, now=clock)
    append.gate.clear()
    append.failures.append(OSError("not this time"))
    first = asyncio.ensure_future(keys.once(KEY, b"x", append))
    await asyncio.sleep(0.01)
    second = asyncio.ensure_future(keys.once(KEY, b"x", append))
    await asyncio.sleep(0.01)
    append.gate.set()
    with pytest.raises(OSError, match="not this time"):
        await first
    assert not await second
    assert await keys.once(KEY, b"x", append)
    assert append.count == 1


async def test_a_user_with_many_keys_pushes_out_only_his_own(clock, append):
    """Regression: with 201 keys of one user the server forgot another user's, and appended a repeated batch again."""
    keys = IdempotencyKeys(count_max=8, ttl_seconds=60, now=clock)
    for user in (1, 2):
        await keys.once((user, "", "kept"), b"x", append)
    for number in range(20):
        await keys.once((3, "", str(number)), b"x", append)
    assert [await keys.once((user, "", "kept"), b"x", append) for user in (1, 2)] == [True, True]
    repeated = [await keys.once((3, "", str(number)), b"x", append) for number in (19, 18, 17, 16, 15)]
    assert repeated == [True, True, True, True, False], "one user has half"
    for user in range(10, 30):
        await keys.once((user, "", "one"), b"x", append)
    assert keys.count == 8
    clock.seconds += 61
    await keys.once((1, "", "new"), b"x", append)
    assert keys.count <= 8


async def test_keys_can_be_turned_off(clock, append):
    keys = IdempotencyKeys(count_max=0, ttl_seconds=60, now=clock)
    assert [await keys.once(KEY, b"x", append) for _ in range(2)] == [False, False]
    assert append.count == 2


class FakeSession:
    def __init__(self, status=Status.OK):
        self.status = status
        self.is_reusable = True
        self.is_closed = False

    async def call(self, code, payload=b""):
        return Response(self.status, b"")

    def close(self):
        self.is_closed = True


class FakeSessions:
    def __init__(self):
        self.opened = []
        self.status = Status.OK

    async def open(self, user_id):
        self.opened.append(FakeSession(self.status))
        return self.opened[-1]


@pytest.fixture
def sessions():
    return FakeSessions()


@pytest.fixture
def members(sessions, clock):
    return Members(sessions, timeout_seconds=30, count_max=2, now=clock)


JOIN = (604, b"")


async def test_silent_members_end_with_their_sessions(members, sessions, clock):
    name = await members.join(7, "g", JOIN)
    clock.seconds += 29
    members.end_silent()
    async with members.of(7, "g", name) as session:
        clock.seconds += 100
        # A member with a request in progress is not silent.
        members.end_silent()
        assert not session.is_closed
    clock.seconds += 30
    members.end_silent()
    assert sessions.opened[0].is_closed
    assert members.count == 0
    with pytest.raises(Refused):
        async with members.of(7, "g", name):
            pass


async def test_members_are_counted(members, sessions):
    await members.join(7, "g", JOIN)
    with pytest.raises(Limited):
        await members.join(7, "another", JOIN)
    name = await members.join(8, "g", JOIN)
    with pytest.raises(Limited):
        await members.join(9, "g", JOIN)
    await members.leave(8, "g", name, JOIN)
    await members.join(9, "g", JOIN)
    members.close()
    assert all(session.is_closed for session in sessions.opened)
    sessions.status = Status.UNAUTHORIZED
    with pytest.raises(Refused):
        await members.join(7, "g", JOIN)
    assert sessions.opened[-1].is_closed
    assert members.count == 0


async def test_a_broken_session_ends_its_member(members, sessions):
    name = await members.join(7, "g", JOIN)
    async with members.of(7, "g", name) as session:
        session.is_reusable = False
    assert session.is_closed
    assert members.count == 0


def test_unsafe_settings_are_refused():
    CorsConfig(allow_credentials=True, allowed_origins=("https://a.example",))
    with pytest.raises(ValueError, match="any page could act as its user"):
        CorsConfig(allow_credentials=True, allowed_origins=("*",))
    with pytest.raises(ValueError, match="fewer than the 64 bytes of HS512"):
        JwtConfig(algorithm="HS512", decoding_secret=Secret("x" * 63))
    with pytest.raises(ValueError, match="are base64"):
        JwtConfig(use_base64_secret=True, encoding_secret=Secret("x" * 64 + "!"))
    JwtConfig(use_base64_secret=True, encoding_secret=Secret("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="))
