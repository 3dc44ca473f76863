"""Logins (CTL-9): the statuses that clients rely on, in their order, and their cost."""

import asyncio
import hashlib
import threading
import time

import pytest

from headrace_gateway.access.access_tokens import AccessTokens, digest_of
from headrace_gateway.access.passwords import Passwords
from headrace_proto.control.v1 import LoginWithPassword, LoginWithToken
from headrace_proto.errors import Status

NOW = 1_700_000_000_000_000


@pytest.fixture
async def ann(metadata, passwords):
    metadata.put_user(5, "ann", await passwords.hash(b"secret"))
    return 5


@pytest.fixture
def login(ask):
    async def send(username, password):
        return await ask(login_with_password=LoginWithPassword(username=username, password=password))

    return send


@pytest.fixture
def login_with_token(ask):
    async def send(token):
        return await ask(login_with_token=LoginWithToken(token=token))

    return send


async def test_the_right_password(login, ann):
    reply = await login("ann", b"secret")
    assert (reply.status, reply.user_id) == (0, ann)
    assert reply.WhichOneof("body") == "user_id"


async def test_root_is_user_0_and_reported_so(login, metadata, passwords):
    metadata.put_user(0, "root", await passwords.hash(b"secret"))
    assert (await login("root", b"secret")).WhichOneof("body") == "user_id"


async def test_a_wrong_password_and_an_unknown_user_look_alike(login, ann, passwords):
    wrong, unknown = await login("ann", b"wrong"), await login("nobody", b"wrong")
    assert wrong == unknown
    assert wrong.status == Status.INVALID_CREDENTIALS
    assert passwords.verified == 2, "and cost the same"


async def test_an_unknown_user_costs_as_much_as_a_wrong_password(login, ann):
    """Measured in CPU time of the whole process, threads included: wall time depends on other load."""
    costs = {"ann": [], "nobody": []}
    for _ in range(5):
        for username, spent in costs.items():
            start = time.process_time()
            await login(username, b"wrong")
            spent.append(time.process_time() - start)
    known, unknown = min(costs["ann"]), min(costs["nobody"])
    assert unknown > known / 3
    assert known > unknown / 3


async def test_lengths_come_first(login, ann, passwords):
    assert (await login("an", b"")).status == Status.INVALID_USERNAME
    assert (await login("n" * 51, b"secret")).status == Status.INVALID_USERNAME
    for password in (b"", b"12", b"1" * 101):
        assert (await login("ann", password)).status == Status.INVALID_PASSWORD
    assert passwords.verified == 0


async def test_an_inactive_user_is_refused_before_the_password_is_looked_at(login, ann, metadata, passwords):
    metadata.change_user(ann, is_active=False)
    assert (await login("ann", b"wrong")).status == Status.USER_INACTIVE
    assert passwords.verified == 0


async def test_digits_are_a_name_like_any_other(login, ann, metadata, passwords):
    assert (await login("005", b"secret")).status == Status.INVALID_CREDENTIALS


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"is_active": False}, Status.USER_INACTIVE),
        ({"password_hash": "another"}, Status.INVALID_CREDENTIALS),
        (None, Status.INVALID_CREDENTIALS),
    ],
)
async def test_what_happens_while_the_password_is_verified_counts(login, ann, metadata, passwords, change, expected):
    def happens():
        if change is None:
            del metadata.users[ann]
        else:
            metadata.change_user(ann, **change)

    passwords.meanwhile = happens
    assert (await login("ann", b"secret")).status == expected


@pytest.mark.parametrize("read", ["credentials_named", "credentials_of"])
async def test_logins_that_wait_for_the_metadata_service_keep_no_others_waiting(login, ann, metadata, passwords, read):
    """Regression: as many of them as there are hashing threads kept all logins waiting."""
    for user_id, username in ((6, "bob"), (7, "carl")):
        metadata.put_user(user_id, username, await passwords.hash(b"secret"))
    answered, may_answer = getattr(metadata, read), asyncio.Event()

    async def answer(user):
        if user not in {"carl", 7}:
            await may_answer.wait()
        return await answered(user)

    setattr(metadata, read, answer)
    waiting = [asyncio.create_task(login(username, b"secret")) for username in ("ann", "bob")]
    await asyncio.sleep(0.01)
    async with asyncio.timeout(20):
        assert (await login("carl", b"secret")).status == Status.OK
    may_answer.set()
    assert [(await task).status for task in waiting] == [Status.OK, Status.OK]


@pytest.fixture
async def crowd(logins):
    """Make newcomers with made-up names wait, each from an address of its own; yield the number of those answered."""
    newcomers = []

    async def begin(count, place="203.0.113.{}:1"):
        before = len(newcomers)
        for number in range(count):
            request = LoginWithPassword(username=f"made-up-{before + number}", password=b"wrong")
            newcomers.append(asyncio.create_task(logins.with_password(request, place.format(number))))
        await asyncio.sleep(0)
        return newcomers[before:]

    yield begin
    for newcomer in newcomers:
        newcomer.cancel()
    await asyncio.gather(*newcomers, return_exceptions=True)


async def test_remembered_passwords_wait_for_no_hash(metadata, logins, crowd, monkeypatch):
    """Regression: a login whose password was remembered waited until the newcomers before it had their hashes."""
    async with Passwords(1, remembered_seconds=300) as passwords:
        monkeypatch.setattr(logins, "_passwords", passwords)
        metadata.put_user(5, "ann", await passwords.hash(b"secret"))
        newcomers = await crowd(40)
        request = LoginWithPassword(username="ann", password=b"secret")
        made = await logins.with_password(request, "198.51.100.1:1")
        assert made.status == Status.OK
        assert not any(newcomer.done() for newcomer in newcomers)
        metadata.change_user(5, is_active=False)
        made = await logins.with_password(request, "198.51.100.1:1")
        assert made.status == Status.USER_INACTIVE


async def test_known_users_come_before_newcomers(login, ann, crowd):
    """Regression: users who had logged in from there before waited in the order of arrival."""
    assert (await login("ann", b"secret")).status == Status.OK
    newcomers = await crowd(40)
    assert (await login("ann", b"secret")).status == Status.OK
    assert sum(newcomer.done() for newcomer in newcomers) < 10


async def test_few_newcomers_wait(crowd):
    """Newcomers beyond the limit are refused at once; of many from one address the last ones make room."""
    await crowd(200, "203.0.113.1:{}")
    refused = [newcomer for newcomer in await crowd(200, "203.0.113.1:{}") if newcomer.done()]
    assert len(refused) == 200
    assert {newcomer.result().status for newcomer in refused} == {Status.TOO_MANY_LOGIN_ATTEMPTS}
    (other,) = await crowd(1, "198.51.100.1:{}")
    assert not other.done()
    assert (await asyncio.wait_for(other, 20)).status == Status.INVALID_CREDENTIALS


async def test_a_damaged_hash_grants_no_access(login, metadata, caplog):
    metadata.put_user(5, "ann", "not a hash")
    assert (await login("ann", b"secret")).status == Status.INVALID_CREDENTIALS
    assert "a stored password hash cannot be used" in caplog.text


async def test_failed_logins_are_logged_with_their_address_and_without_the_password(login, ann, caplog):
    await login("ann", b"wrong-password")
    assert "failed login as 'ann' from 127.0.0.1:1" in caplog.text
    assert "wrong-password" not in caplog.text


async def test_hashing_is_kept_from_the_event_loop_and_bounded(passwords):
    """Passwords are hashed off the event loop, on no more threads than allowed."""
    # Other tests of this process may share a server of their own.
    before = set(threading.enumerate())
    own, all_threads = time.thread_time(), time.process_time()
    hashes = await asyncio.gather(*(passwords.hash(b"secret") for _ in range(20)))
    own, all_threads = time.thread_time() - own, time.process_time() - all_threads
    assert len(set(hashes)) == 20, "every hash has its own salt"
    assert own < all_threads / 2, (own, all_threads)
    begun = set(threading.enumerate()) - before
    assert sum(thread.name.startswith("passwords") for thread in begun) <= 2


async def test_the_documented_parameters():
    async with Passwords(1) as passwords:
        password_hash = await passwords.hash(b"secret")
        assert password_hash.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
        _, _, _, _, salt, digest = password_hash.split("$")
        assert (len(salt), len(digest)) == (22, 43), "16 and 32 bytes in base64 without padding"
        assert await passwords.verify(password_hash, b"secret")
        assert not await passwords.verify(password_hash, b"Secret")
        assert len(passwords._placeholder_hash) == len(password_hash)


async def test_access_tokens(login_with_token, metadata):
    digest = hashlib.sha256(b"the token").digest()
    metadata.put_user(5, "ann", "")
    assert (await login_with_token("the token")).status == Status.RESOURCE_NOT_FOUND
    metadata.put_token(5, digest)
    assert (await login_with_token("the token")).user_id == 5
    metadata.put_token(5, digest, expires_at_micros=NOW + 1, incarnation=8)
    assert (await login_with_token("the token")).status == 0
    metadata.put_token(5, digest, expires_at_micros=NOW, incarnation=9)
    metadata.change_user(5, is_active=False)
    assert (await login_with_token("the token")).status == Status.PERSONAL_ACCESS_TOKEN_EXPIRED
    metadata.put_token(5, digest, incarnation=10)
    assert (await login_with_token("the token")).status == Status.USER_INACTIVE
    assert (await login_with_token("The token")).status == Status.RESOURCE_NOT_FOUND
    del metadata.tokens[digest]
    assert (await login_with_token("the token")).status == Status.RESOURCE_NOT_FOUND


async def test_an_access_token_that_is_shown_again_is_not_asked_for_again(login_with_token, metadata):
    metadata.put_user(5, "ann", "")
    metadata.put_token(5, hashlib.sha256(b"the token").digest())
    for _ in range(3):
        assert (await login_with_token("the token")).user_id == 5
    assert metadata.asked_for_tokens == 1
    # An unknown name is looked up each time: the user may have been created meanwhile.
    for _ in range(3):
        await login_with_token("no token")
    assert metadata.asked_for_tokens == 4


async def test_few_access_tokens_are_remembered(metadata):
    tokens = AccessTokens(accounts=metadata, credentials=metadata, clock=lambda: NOW, remembered_max=2)
    metadata.put_user(5, "ann", "")
    for text in ("one", "two", "three"):
        metadata.put_token(5, digest_of(text))
    for text in ("one", "two", "one", "three", "one", "two"):
        assert (await tokens.find(text)).token.user_id == 5
    assert metadata.asked_for_tokens == 4
