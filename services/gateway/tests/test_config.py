"""Settings: the names and defaults that users of the reference server know."""

import pytest

from headrace_gateway.config import GatewayConfig, TopicConfig
from headrace_settings import SettingsError, load, settings_of


def test_names_and_defaults():
    values = {setting.dotted: str(setting.field.default) for setting in settings_of(GatewayConfig)}
    assert values["tcp.enabled"] == "True"
    assert values["tcp.address"] == "127.0.0.1:8090"
    assert values["websocket.enabled"] == "True"
    assert values["websocket.address"] == "127.0.0.1:8092"
    assert (values["websocket.max_frame_size"], values["websocket.max_message_size"]) == ("16 MiB", "64 MiB")
    assert values["heartbeat.enabled"] == "False"
    assert values["heartbeat.interval"] == "5 s"
    assert values["personal_access_token.max_tokens_per_user"] == "100"
    assert values["personal_access_token.cleaner.enabled"] == "True"
    assert values["personal_access_token.cleaner.interval"] == "1 m"
    assert all(setting.description for setting in settings_of(GatewayConfig))


def test_topic_defaults():
    assert (TopicConfig().max_size.bytes, TopicConfig().message_expiry.micros) == (2**64 - 1, 2**64 - 1)
    with pytest.raises(ValueError, match="server_default"):
        TopicConfig(message_expiry="server_default")


def test_bounds():
    environment = {"HEADRACE_PERSONAL_ACCESS_TOKEN_MAX_TOKENS_PER_USER": "0"}
    with pytest.raises(SettingsError, match="max_tokens_per_user"):
        load(GatewayConfig, environment=environment)


def test_a_gateway_is_not_lost_for_one_word_that_came_late():
    environment = {"HEADRACE_CONSUMER_GROUP_GATEWAY_TIMEOUT": "8 s"}
    with pytest.raises(SettingsError, match="at least twice rebalancing_check_interval"):
        load(GatewayConfig, environment=environment)
    environment["HEADRACE_CONSUMER_GROUP_REBALANCING_CHECK_INTERVAL"] = "4 s"
    assert load(GatewayConfig, environment=environment)
