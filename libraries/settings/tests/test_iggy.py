"""Variables of the server that existing clients come from: applied if the setting exists, otherwise reported."""

from __future__ import annotations

import logging
from typing import Literal

import pytest

from headrace_settings import Address, EnvironmentOrigin, Loaded, Secret, Section, SettingsError, load


class Tcp(Section):
    address: Address = Address.parse("127.0.0.1:8090")


class Segment(Section):
    cache_indexes: Literal["all", "open_segment", "none"] = "open_segment"


class System(Section):
    path: str = "local_data"
    segment: Segment = Segment()


class Console(Section):
    enabled: bool = True


class Jwt(Section):
    encoding_secret: Secret | None = None


class Http(Section):
    console: Console = Console()
    jwt: Jwt = Jwt()


class Server(Section):
    durability: str = "os"
    tcp: Tcp = Tcp()
    system: System = System()
    http: Http = Http()


def loaded(**environment: str) -> Loaded[Server]:
    return load(
        Server,
        environment=environment,
        aliases={"IGGY_ROOT_USERNAME": "durability"},
        renamed={"http.web_ui": "http.console.enabled"},
    )


def test_what_maps_is_taken() -> None:
    found = loaded(
        IGGY_TCP_ADDRESS="127.0.0.1:1",
        IGGY_HTTP_WEB_UI="false",
        IGGY_SYSTEM_SEGMENT_CACHE_INDEXES="true",
        IGGY_HTTP_JWT_ENCODING_SECRET="very secret",
        IGGY_SYSTEM_PATH="",
    )
    assert found.config.tcp.address.port == 1
    assert found.config.http.console.enabled is False
    assert found.config.system.segment.cache_indexes == "all"
    assert found.config.http.jwt.encoding_secret is not None
    assert found.origin(("tcp", "address")) == EnvironmentOrigin("IGGY_TCP_ADDRESS")
    assert found.config.system.path == "local_data"
    assert found.warnings == ()


def test_its_own_variable_wins() -> None:
    found = loaded(IGGY_TCP_ADDRESS="127.0.0.1:1", HEADRACE_TCP_ADDRESS="127.0.0.1:2")
    assert found.config.tcp.address.port == 2


def test_a_wrong_value_stops_the_start_under_the_name_that_was_given() -> None:
    with pytest.raises(SettingsError, match="IGGY_TCP_ADDRESS"):
        loaded(IGGY_TCP_ADDRESS="nowhere")


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("IGGY_SYSTEM_ENCRYPTION_ENABLED", ("no such setting", "encrypt the volume")),
        ("IGGY_SYSTEM_PARTITION_ENFORCE_FSYNC", ("no such setting", "durability")),
        ("IGGY_CLUSTER_NODE_OTHERS_0_IP", ("this service has no such setting",)),
        ("IGGY_TCP_ADRESS", ("did you mean IGGY_TCP_ADDRESS?",)),
        ("IGGY_DURABILITY", ("no equivalent setting exists",)),
        ("IGGY_CONFIG_PATH", ("--config",)),
    ],
)
def test_what_does_not_map_is_warned_of(
    variable: str, words: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    found = loaded(**{variable: "a value", "IGGY_ROOT_USERNAME": "x"})
    (warning,) = found.warnings
    assert warning.startswith(f"{variable} has no effect")
    assert all(word in warning for word in words)
    assert "a value" not in warning, "it may be a secret"
    with caplog.at_level(logging.WARNING):
        found.log_warnings()
    assert [record.getMessage() for record in caplog.records] == [warning]
