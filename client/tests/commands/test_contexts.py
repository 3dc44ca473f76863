"""Contexts: named servers with their credentials (USE-4)."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests import command_line
from tests.command_line.shell import Shell


class User:
    """A user with a directory for configurations, and no variables."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, *arguments: str, **variables: str) -> tuple[int, str, str]:
        result = command_line.run(*arguments, environment={"XDG_CONFIG_HOME": str(self.directory)} | variables)
        return result.returncode, result.stdout.decode(), result.stderr.decode()

    @property
    def file(self) -> Path:
        return self.directory / "headrace" / "contexts.json"


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


@pytest.fixture
def added(user: User, headrace: Shell) -> User:
    login = headrace.login
    status, _, said = user(
        "context", "add", "here", "-s", headrace.environment["HEADRACE_SERVER"], "-u", login["HEADRACE_USERNAME"],
        HEADRACE_PASSWORD=login["HEADRACE_PASSWORD"],
    )  # fmt: skip
    assert (status, said) == (0, f"added context 'here', now in use; its secret is in {user.file}\n")
    return user


def test_a_context_has_server_and_login(added: User) -> None:
    assert added("stream", "list", "--json") == (0, "[]\n", "")
    assert stat.S_IMODE(added.file.stat().st_mode) == 0o600


def test_options_and_variables_win(added: User) -> None:
    status, _, said = added("stream", "list", "-s", "127.0.0.1:1")
    assert (status, "127.0.0.1:1" in said) == (1, True)
    status, _, said = added("stream", "list", HEADRACE_SERVER="127.0.0.1:1")
    assert (status, "127.0.0.1:1" in said) == (1, True)
    status, _, said = added("stream", "list", HEADRACE_PASSWORD="wrong")
    assert (status, "with this password" in said) == (1, True)


def test_a_secret_is_for_its_user_alone(added: User) -> None:
    status, _, said = added("stream", "list", "--username", "ann")
    assert (status, "no password for ann" in said) == (2, True)


def test_a_token_in_a_context(user: User, headrace: Shell) -> None:
    token = json.loads(headrace("token", "create", "for-context", "--json"))["token"]
    server = headrace.environment["HEADRACE_SERVER"]
    assert user("context", "add", "with-token", "-s", server, HEADRACE_TOKEN=token)[0] == 0
    assert user("stream", "list", "--json")[:2] == (0, "[]\n")
    assert token not in user("context", "show", "-o", "yaml")[1]
    headrace("token", "delete", "for-context", "--yes")
    status, _, said = user("stream", "list")
    assert (status, said.startswith("error: the server does not know this access token")) == (1, True)


def test_one_of_several_is_in_use(added: User) -> None:
    added("context", "add", "other", "--server", "tls://other?ca=f", "--description", "the other one")
    listed = json.loads(added("context", "list", "--json")[1])
    assert [(one["name"], one["is_current"], one["server"]) for one in listed] == [
        ("here", True, listed[0]["server"]),
        ("other", False, "tls://other:8090?ca=f"),
    ]
    assert added("context", "use", "other")[2] == "now in use: 'other', tls://other:8090?ca=f\n"
    assert json.loads(added("context", "show", "--json")[1])["name"] == "other"
    assert added("stream", "list", "--json", "--context", "here")[0] == 0
    assert added("stream", "list", "--json", HEADRACE_CONTEXT="here")[0] == 0
    assert added("context", "remove", "other", "--yes")[2] == "removed context 'other'\n"
    assert added("context", "show")[::2] == (1, "error: no context is in use: headrace context use NAME\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("context", "use", "nosuch"), "there is no context 'nosuch' (there is: here)"),
        (("stream", "list", "--context", "nosuch"), "there is no context 'nosuch' (there is: here)"),
        (("context", "add", "here", "-s", "a"), "there is a context 'here' already: --replace replaces it"),
        (
            ("context", "remove", "here"),
            "without a terminal to ask on, this does not remove context 'here' of {server}: add --yes",
        ),
    ],
)
def test_mistakes(added: User, headrace: Shell, arguments: tuple[str, ...], message: str) -> None:
    status, _, said = added(*arguments)
    expected = message.replace("{server}", headrace.environment["HEADRACE_SERVER"])
    assert (status, said) == (1, f"error: {expected}\n")


def test_a_file_that_others_can_read_is_refused(added: User) -> None:
    added.file.chmod(0o644)
    status, _, said = added("stream", "list")
    assert status == 1
    assert said == f"error: {added.file} contains secrets and is open to others: run chmod 600 {added.file}\n"


def test_a_damaged_file_is_named(added: User) -> None:
    added.file.write_text("{}")
    status, _, said = added("stream", "list")
    assert (status, said.startswith(f"error: {added.file} is not a file of contexts (")) == (1, True)


class KeyringError(Exception):
    """Error of the package keyring."""


class PasswordDeleteError(KeyringError):
    """Error of the package keyring: the secret is not there, or is not given up."""


class Keyring:
    """Functions of the package keyring with a backend that stores, and that may refuse."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str], str] = {}
        self.is_locked = False
        self.is_kept = False

    def set_password(self, service: str, name: str, secret: str) -> None:
        self._check()
        self.stored[service, name] = secret

    def get_password(self, service: str, name: str) -> str | None:
        self._check()
        return self.stored.get((service, name))

    def delete_password(self, service: str, name: str) -> None:
        self._check()
        if self.is_kept or (service, name) not in self.stored:
            raise PasswordDeleteError("no such password")
        del self.stored[service, name]

    def _check(self) -> None:
        if self.is_locked:
            raise KeyringError("the collection is locked")


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> Keyring:
    """The package keyring, as if it were installed."""
    keyring = Keyring()
    package, backends, errors, fail, null = (
        ModuleType(f"keyring{name}") for name in ("", ".backends", ".errors", ".backends.fail", ".backends.null")
    )
    vars(fail)["Keyring"] = vars(null)["Keyring"] = type("Keyring", (), {})
    vars(backends).update(fail=fail, null=null)
    vars(errors).update(KeyringError=KeyringError, PasswordDeleteError=PasswordDeleteError)
    vars(package).update(
        backends=backends,
        errors=errors,
        get_keyring=object,
        set_password=keyring.set_password,
        get_password=keyring.get_password,
        delete_password=keyring.delete_password,
    )
    for module in (package, backends, errors, fail, null):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return keyring


def add(user: User, headrace: Shell) -> str:
    login = headrace.login
    return user(
        "context", "add", "here", "-s", headrace.environment["HEADRACE_SERVER"], "-u", login["HEADRACE_USERNAME"],
        HEADRACE_PASSWORD=login["HEADRACE_PASSWORD"],
    )[2]  # fmt: skip


def test_a_keyring_has_the_secret(user: User, headrace: Shell, keyring: Keyring) -> None:
    """The package keyring, with a backend that stores, keeps the secret out of the file."""
    assert add(user, headrace).endswith("its secret is in the keyring\n")
    assert keyring.stored == {("headrace", "here"): headrace.login["HEADRACE_PASSWORD"]}
    assert json.loads(user.file.read_text())["contexts"]["here"]["secret"] is None
    assert user("stream", "list", "--json")[:2] == (0, "[]\n")
    user("context", "remove", "here", "--yes")
    assert keyring.stored == {}


def test_a_secret_ends_with_its_context(user: User, headrace: Shell, keyring: Keyring) -> None:
    add(user, headrace)
    assert user("context", "add", "here", "--server", "other", "--replace")[0] == 0
    assert keyring.stored == {}
    assert json.loads(user("context", "show", "here", "--json")[1])["secret_in"] is None


def test_a_context_can_be_removed_after_its_secret(user: User, headrace: Shell, keyring: Keyring) -> None:
    add(user, headrace)
    keyring.stored.clear()
    assert user("context", "remove", "here", "--yes")[::2] == (0, "removed context 'here'\n")
    assert json.loads(user("context", "list", "--json")[1]) == []


def test_a_keyring_refuses(user: User, headrace: Shell, keyring: Keyring) -> None:
    """Every command says so; a context whose secret the keyring keeps stays, too."""
    add(user, headrace)
    keyring.is_kept = True
    said = "error: the keyring refused: no such password\n"
    assert user("context", "remove", "here", "--yes")[::2] == (1, said)
    keyring.is_locked = True
    said = "error: the keyring refused: the collection is locked\n"
    assert user("stream", "list")[::2] == (1, said)
    assert user("context", "remove", "here", "--yes")[::2] == (1, said)
    assert add(user, headrace) == "error: there is a context 'here' already: --replace replaces it\n"
    assert user("context", "add", "new", "-s", "other", HEADRACE_TOKEN="t")[::2] == (1, said)
    assert [one["name"] for one in json.loads(user("context", "list", "--json")[1])] == ["here"]
