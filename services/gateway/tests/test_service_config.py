"""Settings of the gateway process: encryption of connections to partition nodes."""

import pytest

from headrace_gateway.service.config import load_config
from headrace_settings import SettingsError


def load(**variables):
    return load_config(None, {f"HEADRACE_GATEWAY_{name}": value for name, value in variables.items()}).config


def test_links_are_encrypted_with_the_authority_of_the_cluster_or_one_of_their_own():
    assert not load().links.tls.enabled
    tls = load(LINKS_TLS_ENABLED="true", CLUSTER_AUTHORITY="a.pem").links.tls
    assert (tls.enabled, tls.authority, tls.server_name) == (True, None, None)
    tls = load(LINKS_TLS_ENABLED="true", LINKS_TLS_AUTHORITY="b.pem", LINKS_TLS_SERVER_NAME="nodes.internal").links.tls
    assert (tls.authority, tls.server_name) == ("b.pem", "nodes.internal")
    for name in ("192.0.2.1", "2001:db8::1", "node_1", "a-b.c."):
        assert load(LINKS_TLS_SERVER_NAME=name).links.tls.server_name == name


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"LINKS_TLS_ENABLED": "true"}, "needs links.tls.authority, or cluster.authority"),
        ({"LINKS_TLS_KEY_FILE": "key.pem"}, "together or not at all"),
        ({"LINKS_TLS_SERVER_NAME": "node-1:8100"}, "not a valid host name"),
        ({"LINKS_TLS_SERVER_NAME": "-a"}, "not a valid host name"),
        ({"LINKS_TLS_SERVER_NAME": "a..b"}, "not a valid host name"),
    ],
)
def test_what_is_refused(variables, reason):
    with pytest.raises(SettingsError, match=reason):
        load(**variables)
