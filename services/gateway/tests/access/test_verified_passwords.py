"""The cache of verified passwords."""

from headrace_gateway.access import verified_passwords
from headrace_gateway.access.passwords import Passwords
from headrace_gateway.access.verified_passwords import VerifiedPasswords


class Clock:
    def __init__(self):
        self.seconds = 100.0

    def __call__(self):
        return self.seconds


def test_only_the_password_of_that_hash_is_known():
    known = VerifiedPasswords(300)
    known.remember("hash", b"secret")
    assert known.knows("hash", b"secret")
    for password_hash, password in (("hash", b"Secret"), ("hash", b""), ("other", b"secret"), ("has", b"hsecret")):
        assert not known.knows(password_hash, password)


def test_it_is_forgotten_in_time_however_often_it_is_used():
    clock = Clock()
    known = VerifiedPasswords(300, now=clock)
    known.remember("hash", b"secret")
    for _ in range(3):
        clock.seconds += 99.9
        assert known.knows("hash", b"secret")
    clock.seconds += 0.4
    assert not known.knows("hash", b"secret")
    assert not known._entries


def test_nothing_is_kept_that_could_be_read():
    known = VerifiedPasswords(300)
    known.remember("hash", b"secret")
    assert b"secret" not in repr(known._entries).encode()
    assert known._entries["hash"][0] != VerifiedPasswords(300)._digest("hash", b"secret"), (
        "every process has its own key"
    )


def test_it_is_bounded_and_what_is_used_stays(monkeypatch):
    monkeypatch.setattr(verified_passwords, "ENTRIES_MAX", 3)
    known = VerifiedPasswords(300)
    for number in range(3):
        known.remember(f"hash {number}", b"secret")
    assert known.knows("hash 0", b"secret")
    known.remember("hash 3", b"secret")
    assert [known.knows(f"hash {number}", b"secret") for number in range(4)] == [True, False, True, True]


async def test_a_password_is_hashed_once_and_a_wrong_one_each_time(monkeypatch):
    async with Passwords(1) as passwords:
        password_hash = await passwords.hash(b"secret")
    async with Passwords(1, remembered_seconds=300) as passwords:
        hashed = []
        verify = passwords._verify
        monkeypatch.setattr(passwords, "_verify", lambda *given: hashed.append(given[1]) or verify(*given))
        for password in (b"secret", b"wrong", b"secret", b"wrong", b"secret"):
            assert await passwords.verify(password_hash, password) == (password == b"secret")
        assert hashed == [b"secret", b"wrong", b"wrong"]


async def test_a_password_that_was_just_set_is_known():
    async with Passwords(1, remembered_seconds=300) as passwords:
        password_hash = await passwords.hash(b"secret")
        passwords._hasher = None
        assert await passwords.verify(password_hash, b"secret")


async def test_by_default_nothing_is_remembered():
    async with Passwords(1) as passwords:
        await passwords.hash(b"secret")
        assert not passwords._remembered._entries
