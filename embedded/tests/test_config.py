"""The composed configuration of the embedded server."""

import ipaddress
import tomllib
from pathlib import Path

import click
import pytest

from headrace.cli.commands.operating.config import reference_page
from headrace.cli.program import program
from headrace_embedded.config import RENAMED, EmbeddedConfig, load_config
from headrace_embedded.service_settings import SERVICES, Service
from headrace_settings import Address, SettingsError, settings_of, to_toml
from headrace_settings.loading.iggy import KEYS

ROOT = Path(__file__).resolve().parents[2]


def test_every_setting_is_documented_and_has_its_own_variable() -> None:
    undocumented = [setting.dotted for setting in settings_of(EmbeddedConfig) if not setting.description]
    assert not undocumented


def test_the_reference_page_is_current() -> None:
    assert (ROOT / "docs/configuration.md").read_text(encoding="utf-8") == reference_page(), "make generate"


def test_nothing_listens_beyond_loopback_by_default() -> None:
    addresses = [setting.field.default for setting in settings_of(EmbeddedConfig)]
    listeners = [address for address in addresses if isinstance(address, Address)]
    assert listeners
    assert all(ipaddress.ip_address(str(address.ip)).is_loopback for address in listeners)


def test_the_effective_configuration_loads_back(tmp_path: Path) -> None:
    loaded = load_config(None, {"HEADRACE_TCP_ADDRESS": "[::1]:0", "HEADRACE_DURABILITY": "fsync"})
    file = tmp_path / "current_config.toml"
    file.write_text(to_toml(loaded.config, origins=loaded.origins))
    assert tomllib.loads(file.read_text())["tcp"]["address"] == "[::1]:0"
    assert load_config(file, {}).config == loaded.config


def variables_of(command: click.Command) -> set[str]:
    """Variables of the options of a command and of those below it."""
    found: set[str] = set()
    for parameter in command.params:
        names = parameter.envvar or ()
        found.update((names,) if isinstance(names, str) else names)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found |= variables_of(below)
    return found


@pytest.mark.parametrize("service", Service)
def test_variables_of_the_command_line_are_no_settings(service: Service) -> None:
    """Services may have them in their environments, where they change nothing."""
    variables = variables_of(program)
    assert {"HEADRACE_SERVER", "HEADRACE_TOKEN", "HEADRACE_METADATA_REPLICAS"} <= variables
    settings = SERVICES[service]
    loaded = settings.load(None, dict.fromkeys(variables, "x") | {"OTHER": "x"})
    assert loaded.origins == {}
    own = {setting.variable(settings.prefix) for setting in settings_of(settings.model)}
    assert not variables & (own | {f"{variable}_FILE" for variable in own})


@pytest.mark.parametrize("service", Service)
def test_every_maximum_says_who_shares_it(service: Service) -> None:
    """A limit that all users share without a part for each lets one of them stop the others: the reference says so."""
    settings = settings_of(SERVICES[service].model)
    assert [setting.dotted for setting in settings if setting.is_maximum and setting.shared_by is None] == []


def test_an_unknown_variable_stops_the_start_with_the_nearest_name() -> None:
    with pytest.raises(SettingsError, match="did you mean HEADRACE_TCP_ADDRESS"):
        load_config(None, {"HEADRACE_TCP_ADRESS": "127.0.0.1:0"})


def test_a_topic_holds_at_least_a_segment() -> None:
    with pytest.raises(SettingsError, match=r"is less than segment\.size = 1 GiB"):
        load_config(None, {"HEADRACE_SYSTEM_TOPIC_MAX_SIZE": "1 MiB"})


@pytest.mark.parametrize("listener", ["TCP", "WEBSOCKET", "HTTP", "GRPC", "PIPELINES"])
def test_plain_text_stays_on_this_machine(listener: str) -> None:
    beyond = {f"HEADRACE_{listener}_ADDRESS": "192.0.2.1:8000"}
    with pytest.raises(SettingsError, match="so passwords can be read from the network"):
        load_config(None, beyond)
    trusted = beyond | {"HEADRACE_TRUSTED_NETWORK": "true"}
    assert load_config(None, trusted).config.trusted_network
    assert load_config(None, beyond | {f"HEADRACE_{listener}_ENABLED": "false"}).config.beyond_loopback == {}
    with pytest.raises(SettingsError, match="the well-known one"):
        load_config(None, trusted | {"HEADRACE_ROOT_USERNAME": "iggy", "HEADRACE_ROOT_PASSWORD": "iggy"})


def test_what_is_encrypted_may_leave_this_machine() -> None:
    files = {"HEADRACE_TCP_TLS_CERT_FILE": "a.pem", "HEADRACE_TCP_TLS_KEY_FILE": "b.pem"}
    beyond = {"HEADRACE_TCP_ADDRESS": "192.0.2.1:8000", "HEADRACE_TCP_TLS_ENABLED": "true"}
    assert load_config(None, beyond | files).config.beyond_loopback == {"tcp.address = 192.0.2.1:8000": True}


def test_pipelines_have_to_find_their_port() -> None:
    everywhere = {"HEADRACE_PIPELINES_ADDRESS": "0.0.0.0:8101", "HEADRACE_TRUSTED_NETWORK": "true"}
    with pytest.raises(SettingsError, match="set advertised to the address that others connect to"):
        load_config(None, everywhere)
    assert load_config(None, everywhere | {"HEADRACE_PIPELINES_ENABLED": "false"}).config.pipelines.enabled is False
    advertised = everywhere | {"HEADRACE_PIPELINES_ADVERTISED": "here.example:8101"}
    assert load_config(None, advertised).config.pipelines.advertised == "here.example:8101"


def test_the_names_that_existing_scripts_set() -> None:
    config = load_config(
        None,
        {
            "HEADRACE_TCP_ADDRESS": "127.0.0.1:0",
            "HEADRACE_HTTP_ADDRESS": "127.0.0.1:0",
            "HEADRACE_WEBSOCKET_ADDRESS": "127.0.0.1:0",
            "HEADRACE_QUIC_ADDRESS": "127.0.0.1:0",
            "HEADRACE_GRPC_ADDRESS": "127.0.0.1:0",
            "HEADRACE_SYSTEM_PATH": "elsewhere",
            "HEADRACE_RUNTIME_DRIVER": "poll",
            "HEADRACE_SYSTEM_SEGMENT_SIZE": "1 MiB",
        },
    ).config
    assert config.tcp.address.port == 0
    assert config.system.path == "elsewhere"
    assert config.runtime.driver == "poll"


def test_variables_of_iggy() -> None:
    """A container migrated from the Iggy server: known variables take effect, others cause a warning (GW-1)."""
    loaded = load_config(
        None,
        {
            "IGGY_ROOT_USERNAME": "iggy",
            "IGGY_ROOT_PASSWORD": "secret",
            "IGGY_TCP_ADDRESS": "127.0.0.1:0",
            "IGGY_HTTP_WEB_UI": "false",
            "IGGY_CLUSTER_NODE_CURRENT_NAME": "node-7",
            "IGGY_SYSTEM_SEGMENT_CACHE_INDEXES": "false",
            "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true",
            "IGGY_SYSTEM_PARTITION_ENFORCE_FSYNC": "true",
        },
    )
    config = loaded.config
    assert config.tcp.address.port == 0
    assert config.http.console.enabled is False
    assert config.cluster.node_name == "node-7"
    assert config.system.segment.cache_indexes == "none"
    names = [warning.partition(" ")[0] for warning in loaded.warnings]
    assert names == ["IGGY_SYSTEM_ENCRYPTION_ENABLED", "IGGY_SYSTEM_PARTITION_ENFORCE_FSYNC"]


def test_renamed_settings_of_iggy_exist() -> None:
    settings = {setting.dotted for setting in settings_of(EmbeddedConfig)}
    assert set(RENAMED) <= set(KEYS)
    assert set(RENAMED.values()) <= settings
    assert not set(RENAMED) & settings
