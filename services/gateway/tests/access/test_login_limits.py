"""Rate limits of password guessing (CTL-9), which do not affect other users of the same network."""

import asyncio
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_chassis.places import place_of
from headrace_gateway.access.login_limits import LoginLimits
from headrace_proto.control.v1 import LoginWithPassword, LoginWithToken
from headrace_proto.errors import Status

SECOND = 1_000_000
HERE, THERE = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def limits():
    return LoginLimits(failures_max=3, interval_micros=6 * SECOND)


def fail(limits, username, host, now, times=1):
    for _ in range(times):
        limits.failed(username, host, now)


def test_a_user_at_an_address(limits):
    fail(limits, "ann", HERE, 0, 2)
    assert limits.refused_for_micros("ann", HERE, 0) == 0
    fail(limits, "ann", HERE, 0)
    assert limits.refused_for_micros("ann", HERE, 0) == 6 * SECOND
    assert limits.refused_for_micros("ann", HERE, 2 * SECOND) == 4 * SECOND
    assert limits.refused_for_micros("ann", HERE, 6 * SECOND) == 0
    assert limits.refused_for_micros("ann", THERE, 0) == 0, "elsewhere she may"
    assert limits.refused_for_micros("bob", HERE, 0) == 0, "others may here"


def test_a_clock_that_is_set_back_keeps_no_user_out(limits):
    """Regression: the user was refused until the clock had caught up."""
    now, day = 10 * 86_400 * SECOND, 86_400 * SECOND
    fail(limits, "ann", HERE, now, 3)
    assert limits.refused_for_micros("ann", HERE, now - day) == 6 * SECOND
    assert limits.refused_for_micros("ann", HERE, now - day + 6 * SECOND) == 0
    for _ in range(100):
        limits.token_failed(HERE, now)
    assert limits.token_refused_for_micros(HERE, now - day) > 0
    assert limits.token_refused_for_micros(HERE, now - day + 60 * SECOND) == 0


def test_an_address(limits):
    for number in range(30):
        assert limits.refused_for_micros(f"user-{number}", HERE, 0) == 0
        fail(limits, f"user-{number}", HERE, 0)
    assert limits.refused_for_micros("another", HERE, 0) > 0
    assert limits.refused_for_micros("another", THERE, 0) == 0


def test_failures_elsewhere_keep_no_user_out(limits):
    """Failures from many addresses slow down guessing from new addresses, and lock out no user."""
    limits.succeeded("ann", "203.0.113.1", 0)
    for number in range(40):
        fail(limits, "ann", f"192.0.2.{number}", 0)
    new, known = "198.51.100.1", "203.0.113.1"
    assert limits.refused_for_micros("ann", new, 0) == 0, "she knows her password"
    fail(limits, "ann", new, 0)
    assert limits.refused_for_micros("ann", new, 0) > 0, "who guesses has one attempt"
    fail(limits, "ann", known, 0, 2)
    assert limits.refused_for_micros("ann", known, 0) == 0, "where she has logged in, as many as ever"
    fail(limits, "ann", known, 0)
    assert limits.refused_for_micros("ann", known, 0) > 0
    assert limits.refused_for_micros("bob", new, 0) == 0


def test_who_has_logged_in_from_an_address_is_not_kept_out_by_others_there(limits):
    limits.succeeded("ann", HERE, 0)
    for number in range(40):
        fail(limits, f"made-up-{number}", HERE, 0)
    assert limits.refused_for_micros("bob", HERE, 0) > 0
    assert limits.refused_for_micros("ann", HERE, 0) == 0
    month = 31 * 86_400 * SECOND
    for number in range(40):
        fail(limits, f"made-up-{number}", HERE, month)
    assert limits.refused_for_micros("ann", HERE, month) > 0, "not for ever"


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1:4000", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("[::ffff:192.0.2.1]:4000", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::7]:4000", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("[::1]:4000", "::1"),
        ("", ""),
    ],
)
def test_an_address_has_one_form(address, place):
    assert place_of(address) == place


def test_a_network_of_ipv6_counts_as_one_address(limits):
    for number in range(3):
        fail(limits, "ann", f"[2001:db8::{number:x}]:4000", 0)
    assert limits.refused_for_micros("ann", "2001:db8::ffff", 0) > 0
    assert limits.refused_for_micros("ann", "2001:db8:0:1::1", 0) == 0


def test_who_mistypes_begins_anew(limits):
    fail(limits, "ann", HERE, 0, 2)
    limits.succeeded("ann", HERE, 0)
    fail(limits, "ann", HERE, 0, 2)
    assert limits.refused_for_micros("ann", HERE, 0) == 0


def test_without_limit():
    limits = LoginLimits(failures_max=0, interval_micros=1)
    fail(limits, "ann", HERE, 0, 1000)
    assert limits.refused_for_micros("ann", HERE, 0) == 0


@given(waits=st.lists(st.integers(0, 20 * SECOND), min_size=1, max_size=60))
def test_guesses_never_come_faster_than_allowed(waits):
    """Rate limit for any rhythm: in a time t, at most the maximum plus t / interval passwords are verified."""
    limits = LoginLimits(failures_max=3, interval_micros=6 * SECOND)
    now = guesses = 0
    for wait in waits:
        now += wait
        if limits.refused_for_micros("ann", HERE, now) == 0:
            guesses += 1
            limits.failed("ann", HERE, now)
        assert guesses <= 3 + now / (6 * SECOND) + 1e-6


async def test_a_refused_login_costs_no_hash(ask, metadata, passwords):
    """Even the right password is not verified: the answer must not disclose that it is right."""
    metadata.put_user(5, "ann", await passwords.hash(b"secret"))
    for _ in range(10):
        reply = await ask(login_with_password=LoginWithPassword(username="ann", password=b"wrong"))
        assert reply.status == Status.INVALID_CREDENTIALS
    for password in (b"wrong", b"secret"):
        reply = await ask(login_with_password=LoginWithPassword(username="ann", password=password))
        assert reply.status == Status.TOO_MANY_LOGIN_ATTEMPTS
    assert passwords.verified == 10


async def test_logins_that_come_together_are_counted_one_by_one(ask, metadata, passwords):
    """Otherwise a burst over many connections could guess without limit before the first failure is counted."""
    metadata.put_user(5, "ann", await passwords.hash(b"secret"))
    login = LoginWithPassword(username="ann", password=b"wrong")
    replies = await asyncio.gather(*(ask(login_with_password=login) for _ in range(40)))
    statuses = {reply.status for reply in replies}
    assert statuses == {Status.INVALID_CREDENTIALS, Status.TOO_MANY_LOGIN_ATTEMPTS}
    # Each thread may be verifying one more password when the last failure is counted.
    assert passwords.verified <= 10 + 1


async def test_who_knows_the_password_may_log_in_as_often_at_once(ask, metadata, passwords):
    metadata.put_user(5, "ann", await passwords.hash(b"secret"))
    login = LoginWithPassword(username="ann", password=b"secret")
    replies = await asyncio.gather(*(ask(login_with_password=login) for _ in range(40)))
    assert {reply.status for reply in replies} == {Status.OK}


async def test_access_tokens_that_do_not_exist_are_limited(ask, metadata):
    """Each unknown token may cost a request to another service. A token presented before is cached."""
    metadata.put_user(5, "ann", "")
    metadata.put_token(5, hashlib.sha256(b"the token").digest())
    assert (await ask(login_with_token=LoginWithToken(token="the token"))).status == Status.OK
    statuses = [(await ask(login_with_token=LoginWithToken(token=f"{n}"))).status for n in range(110)]
    assert statuses == [Status.RESOURCE_NOT_FOUND] * 100 + [Status.TOO_MANY_LOGIN_ATTEMPTS] * 10
    assert metadata.asked_for_tokens == 101
    assert (await ask(login_with_token=LoginWithToken(token="the token"))).status == Status.OK
