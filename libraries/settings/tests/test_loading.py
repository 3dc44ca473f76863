"""Sources of settings, their precedence, and the messages of a refused startup."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import model_validator

from headrace_settings import (
    Address,
    Between,
    Duration,
    EnvironmentOrigin,
    FileOrigin,
    Loaded,
    MultipleOf,
    Secret,
    Section,
    SettingsError,
    Size,
    load,
    settings_of,
)


class Tcp(Section):
    enabled: bool = True
    """True if the listener is enabled."""
    address: Address = Address.parse("127.0.0.1:8090")
    """Address to listen on."""


class Segment(Section):
    size: Annotated[Size, Between(Size.parse("4 KiB"), Size.parse("1 GiB")), MultipleOf(512)] = Size.parse("1 GiB")


class System(Section):
    path: str = "local_data"
    segment: Segment = Segment()


class Root(Section):
    username: str | None = None
    password: Secret | None = None

    @model_validator(mode="after")
    def both_or_neither(self) -> "Root":
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password are given together or not at all")
        return self


class Server(Section):
    durability: Literal["memory", "os", "fsync"] = "os"
    tcp: Tcp = Tcp()
    system: System = System()
    root: Root = Root()
    peers: tuple[str, ...] = ()
    interval: Duration = Duration.parse("30 s")
    workers: Annotated[int, Between(1, 64)] = 1


ALIASES = {"IGGY_ROOT_USERNAME": "root.username", "IGGY_ROOT_PASSWORD": "root.password"}


def loaded(file: Path | None = None, **environment: str) -> Loaded[Server]:
    return load(Server, file=file, environment=environment, aliases=ALIASES, reserved={"HEADRACE_SERVER"})


def refused(file: Path | None = None, **environment: str) -> str:
    with pytest.raises(SettingsError) as caught:
        loaded(file, **environment)
    return str(caught.value)


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str) -> Path:
        file = tmp_path / "headrace.toml"
        file.write_text(text)
        return file

    return write


def test_without_sources_everything_is_default() -> None:
    assert loaded().config == Server()


def test_the_environment_wins_over_the_file(write) -> None:
    file = write('durability = "fsync"\n[tcp]\naddress = "127.0.0.1:1"\nenabled = false\n')
    result = loaded(file, HEADRACE_TCP_ADDRESS="[::1]:0", HEADRACE_PEERS="[a, b]", HEADRACE_SERVER="x:1")
    assert result.config.tcp.address == Address.parse("[::1]:0")
    assert result.config.durability == "fsync"
    assert not result.config.tcp.enabled
    assert result.config.peers == ("a", "b")
    assert result.origin(("tcp", "address")) == EnvironmentOrigin("HEADRACE_TCP_ADDRESS")
    assert result.origin(("tcp", "enabled")) == FileOrigin(file, 4)


def test_options_win_over_all(write) -> None:
    result = load(
        Server,
        file=write('system.path = "file"'),
        environment={"HEADRACE_SYSTEM_PATH": "environment"},
        options={"system.path": ("--data", "option")},
    )
    assert result.config.system.path == "option"
    assert str(result.origin(("system", "path"))) == "option --data"


def test_an_unknown_name_is_refused_with_the_nearest_known_one(write) -> None:
    text = refused(write('\n[tcp]\nadress = "127.0.0.1:0"\n'), HEADRACE_SYSTEM_SEGMENT_SIZ="1 GiB")
    assert "tcp.adress: unknown setting" in text
    assert "headrace.toml line 3" in text
    assert "did you mean tcp.address?" in text
    assert "did you mean HEADRACE_SYSTEM_SEGMENT_SIZE?" in text


def test_a_wrong_value_says_where_it_came_from_and_what_is_allowed(write) -> None:
    text = refused(
        write('durability = "sync"\n[system.segment]\nsize = "2 GiB"\n'),
        HEADRACE_TCP_ENABLED="perhaps",
        HEADRACE_WORKERS="65",
        HEADRACE_INTERVAL="5",
    )
    assert "durability: 'sync' is not one of memory, os, fsync" in text
    assert "line 1" in text
    assert "system.segment.size: 2 GiB is more than 1 GiB" in text
    assert "from 4 KiB to 1 GiB, a multiple of 512" in text
    assert "tcp.enabled: 'perhaps' is not true or false (environment HEADRACE_TCP_ENABLED)" in text
    assert "workers: 65 is more than 64" in text
    assert "interval: '5' is not a duration" in text


def test_everything_that_is_wrong_is_reported_at_once(write) -> None:
    text = refused(write("tcp = 1\nnonsense = 2\n[system]\nsegment.size = true\n"))
    assert "tcp: is a table of settings" in text
    assert "nonsense: unknown setting" in text
    assert "system.segment.size: True is not text" in text


def test_a_rule_over_several_settings(write) -> None:
    assert "root: username and password are given together" in refused(HEADRACE_ROOT_USERNAME="root")


def test_aliases_yield_to_the_setting_itself() -> None:
    root = loaded(IGGY_ROOT_USERNAME="theirs", IGGY_ROOT_PASSWORD=" pass ", HEADRACE_ROOT_USERNAME="ours").config.root
    assert root.username == "ours"
    assert root.password == Secret(" pass ")


def test_an_empty_variable_is_no_variable() -> None:
    assert loaded(HEADRACE_TCP_ADDRESS="").config == Server()


def test_secrets_from_files(write, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2 \n")
    file = write(f'[root]\nusername = "root"\npassword_file = "{tmp_path}/password"\n')
    assert loaded(file).config.root.password == Secret("hunter2 ")
    by_name = loaded(HEADRACE_ROOT_USERNAME="r", HEADRACE_ROOT_PASSWORD_FILE=str(tmp_path / "password"))
    assert by_name.config.root.password == Secret("hunter2 ")


def test_a_secret_is_given_once_and_its_file_must_be_there(write, tmp_path: Path) -> None:
    text = refused(write(f'[root]\nusername = "r"\npassword = "x"\npassword_file = "{tmp_path}/none"\n'))
    assert "root.password_file: is set together with root.password" in text
    text = refused(HEADRACE_ROOT_USERNAME="r", HEADRACE_ROOT_PASSWORD="x", HEADRACE_ROOT_PASSWORD_FILE="y")
    assert "HEADRACE_ROOT_PASSWORD_FILE: is set together with HEADRACE_ROOT_PASSWORD" in text
    assert "cannot read" in refused(HEADRACE_ROOT_USERNAME="r", HEADRACE_ROOT_PASSWORD_FILE=str(tmp_path / "none"))


def test_a_wrong_secret_is_not_shown(write) -> None:
    text = refused(write('[root]\nusername = "r"\npassword = 12345678\n'))
    assert "root.password: a secret is text" in text
    assert "12345678" not in text


def test_a_file_that_is_not_toml_or_not_there(write, tmp_path: Path) -> None:
    assert "is not TOML" in refused(write("tcp = ["))
    assert "cannot be read" in refused(tmp_path / "missing.toml")


def test_two_settings_never_share_a_variable() -> None:
    class Inner(Section):
        b_c: int = 1

    class Clash(Section):
        a: Inner = Inner()
        a_b_c: int = 2

    with pytest.raises(TypeError, match=r"a_b_c and a\.b_c share"):
        settings_of(Clash)


def test_a_secrets_file_variable_clashes_too() -> None:
    class Clash(Section):
        key: Secret = Secret("")
        key_file: str = ""

    with pytest.raises(TypeError, match="share one environment variable"):
        settings_of(Clash)
