"""Login tokens: validity, at one gateway and at another (GW-4, CTL-9)."""

import jwt
import pytest

from headrace_gateway.access.access_tokens import AccessTokens, digest_of
from headrace_gateway.access.token_config import JwtConfig
from headrace_gateway.access.tokens import InvalidToken, Tokens, TooManyRevocations, _Pace
from headrace_settings import Secret

NOW = 1_700_000_000
KEY = b"a key that all gateways of a cluster have in common"
OTHER_KEY = b"what they have in common when their secret was changed"


class Revocations:
    def __init__(self):
        self.revoked = {}

    def holds(self, token_id):
        return token_id in self.revoked

    async def add(self, token_id, expires_at, *, expired_before):
        was_good = token_id not in self.revoked
        self.revoked[token_id] = expires_at
        return was_good


@pytest.fixture
def revocations():
    return Revocations()


@pytest.fixture
def access_tokens(metadata):
    return AccessTokens(accounts=metadata, credentials=metadata, clock=lambda: NOW * 1_000_000)


@pytest.fixture
def gateway(metadata, revocations, access_tokens):
    def make(config=None, keys=(KEY,), **more):
        return Tokens(
            config or JwtConfig(),
            accounts=metadata,
            access_tokens=access_tokens,
            revocations=revocations,
            shared_keys=keys,
            **more,
            now=lambda: NOW,
        )

    return make


def is_good(tokens, text):
    try:
        bearer = tokens.check(text)
    except InvalidToken:
        return False
    return tokens.is_good(bearer)


def test_a_token_of_one_gateway_is_good_at_another_with_the_same_key(gateway, metadata):
    metadata.put_user(5, "ann", "hash")
    text = gateway().issue(5, 1).text
    assert gateway().check(text).user_id == 5
    assert not is_good(gateway(keys=()), text), "without a common key each has its own"
    assert not is_good(gateway(keys=(OTHER_KEY,)), text)


def test_a_secret_of_the_settings_goes_before_the_common_key(gateway, metadata):
    metadata.put_user(5, "ann", "hash")
    config = JwtConfig(encoding_secret=Secret("a secret of the settings, long enough"))
    text = gateway(config).issue(5, 1).text
    assert is_good(gateway(config, keys=()), text)
    assert not is_good(gateway(), text)


def test_a_token_is_over_with_the_next_password(gateway, metadata):
    metadata.put_user(5, "ann", "hash")
    tokens = gateway()
    text = tokens.issue(5, 1).text
    bearer = tokens.check(text)
    metadata.change_user(5, password_hash="another")
    assert tokens.is_good(bearer), "what counts is the version"
    metadata.change_user(5, password_version=2)
    assert not tokens.is_good(bearer)
    assert not is_good(tokens, text)
    # The password was changed between its verification and the issue of the token.
    assert not is_good(tokens, tokens.issue(5, 1).text)
    assert is_good(tokens, tokens.issue(5, None).text)


def test_a_token_is_over_with_its_user(gateway, metadata):
    metadata.put_user(5, "ann", "hash")
    tokens = gateway()
    text = tokens.issue(5, 1).text
    metadata.change_user(5, is_active=False)
    assert not is_good(tokens, text)
    del metadata.users[5]
    assert not is_good(tokens, text)
    with pytest.raises(InvalidToken):
        tokens.issue(5, 1)


async def test_a_token_is_over_with_the_access_token_that_it_was_given_for(gateway, metadata, access_tokens):
    metadata.put_user(5, "ann", "hash")
    metadata.put_token(5, digest_of("one"))
    shown = await access_tokens.find("one")
    tokens = gateway()
    text = tokens.issue(5, 1, shown.token).text
    bearer = tokens.check(text)
    assert bearer.access_token == shown.token
    metadata.put_token(5, digest_of("one"), incarnation=8)
    assert not tokens.is_good(bearer), "another one has its name"
    del metadata.tokens[digest_of("one")]
    assert not is_good(tokens, text)


async def test_a_token_that_was_taken_back_is_over_at_once(gateway, metadata, revocations):
    metadata.put_user(5, "ann", "hash")
    tokens = gateway()
    bearer = tokens.check(tokens.issue(5, 1).text)
    await tokens.revoke(bearer)
    assert not gateway().is_good(bearer)
    assert revocations.revoked == {bearer.token_id: bearer.expires_at}


async def test_a_token_is_exchanged_once(gateway, metadata):
    metadata.put_user(5, "ann", "hash")
    here, there = gateway(), gateway()
    text = here.issue(5, 1).text
    # Both have validated the token before either revokes it.
    first, second = here.check(text), there.check(text)
    issued = await here.exchange(first)
    assert is_good(there, issued.text)
    with pytest.raises(InvalidToken, match="revoked"):
        await there.exchange(second)


@pytest.mark.parametrize(
    "claims",
    [
        {"pwd": "0123456789abcdef"},
        {"pwd": True},
        {"pwd": 1.0},
        {"pat": "00ff"},
        {"pat": ["name"]},
        {"pat": ["name", "7", 0]},
        {"pat": ["name", 7, 0, 0]},
    ],
)
def test_claims_that_are_not_ours_are_no_good(gateway, metadata, claims):
    metadata.put_user(5, "ann", "hash")
    tokens = gateway()
    good = jwt.decode(tokens.issue(5, 1).text, options={"verify_signature": False})
    assert is_good(tokens, jwt.encode(good, KEY, "HS256"))
    assert not is_good(tokens, jwt.encode(good | claims, KEY, "HS256"))


def test_a_token_of_another_user_who_has_the_secret_says_nothing_of_passwords(gateway, metadata):
    metadata.put_user(5, "ann", "hash")
    tokens = gateway()
    claims = jwt.decode(tokens.issue(5, 1).text, options={"verify_signature": False})
    del claims["pwd"]
    text = jwt.encode(claims, KEY, "HS256")
    metadata.change_user(5, password_version=2)
    assert is_good(tokens, text)


async def test_what_another_gateway_knew_is_waited_for(gateway, metadata):
    """A user created a moment ago uses another gateway with the next request."""
    metadata.put_user(5, "ann", "hash", password_version=2)
    metadata.version = 9
    text = gateway().issue(5, 2).text
    asked = []

    async def reach(version):
        asked.append(version)
        metadata.version = version
        metadata.put_user(5, "ann", "hash", password_version=2)

    for before in ({}, {"password_version": 1}):
        metadata.users.clear()
        if before:
            metadata.put_user(5, "ann", "hash", **before)
        metadata.version = 8
        assert (await gateway(reach=reach).identify(text)).user_id == 5
    assert asked == [9, 9]


async def test_no_caller_waits_for_what_is_known_to_be_over(gateway, metadata):
    metadata.put_user(5, "ann", "hash")
    metadata.version = 9
    text = gateway().issue(5, 1).text
    del metadata.users[5]

    async def reach(version):
        raise AssertionError(version)

    with pytest.raises(InvalidToken):
        await gateway(reach=reach).identify(text)
    # A single gateway that has lost its data: there is no newer version to wait for.
    metadata.version = 3
    with pytest.raises(InvalidToken):
        await gateway().identify(text)


def test_while_the_common_key_is_changed_tokens_of_both_are_good(gateway, metadata):
    metadata.put_user(5, "ann", "hash")
    before, after = gateway(keys=(KEY, OTHER_KEY)), gateway(keys=(OTHER_KEY, KEY))
    for text in (before.issue(5, 1).text, after.issue(5, 1).text):
        assert is_good(before, text)
        assert is_good(after, text)
    assert not is_good(gateway(), after.issue(5, 1).text), "it signs with the first"
    assert not is_good(gateway(keys=(b"x" * 64, b"y" * 64)), before.issue(5, 1).text)
    config = JwtConfig(encoding_secret=Secret("a secret of the settings, long enough"))
    assert not is_good(gateway(config, keys=(KEY, OTHER_KEY)), before.issue(5, 1).text), "settings go before both"


async def test_what_is_remembered_of_one_user_is_bounded(gateway, metadata, revocations):
    for user_id, name in ((5, "ann"), (6, "bob")):
        metadata.put_user(user_id, name, "hash")
    tokens = gateway(JwtConfig(max_revocations_per_second=1))
    bearer = tokens.check(tokens.issue(5, 1).text)
    for _ in range(100):
        bearer = tokens.check((await tokens.exchange(bearer)).text)
    with pytest.raises(TooManyRevocations) as refused:
        await tokens.exchange(bearer)
    assert refused.value.retry_after_seconds == pytest.approx(1)
    with pytest.raises(TooManyRevocations):
        await tokens.revoke(bearer)
    assert is_good(tokens, bearer.text)
    assert len(revocations.revoked) == 100
    other = tokens.check(tokens.issue(6, 1).text)
    assert await tokens.revoke(other)
    assert not await tokens.revoke(other), "once more costs nothing"


def test_a_clock_that_is_set_back_refuses_no_revocations_for_long():
    """Regression: they were refused until the clock had caught up."""
    pace = _Pace(1)
    for _ in range(100):
        pace.take(5, NOW + 86_400)
    with pytest.raises(TooManyRevocations) as refused:
        pace.take(5, NOW)
    assert refused.value.retry_after_seconds == pytest.approx(1)
    pace.take(5, NOW + 1)
