"""Settings of a partition node: refusals, and no listening beyond loopback by accident."""

import pytest

from headrace_partition_node.config import load_config
from headrace_settings import SettingsError

SECRET = "a secret of thirty-two bytes or more"
BEYOND = {"CLUSTER_SECRET": SECRET, "BINARY_ADVERTISED": "node-1:8100", "GRPC_ADVERTISED": "node-1:8101"}


def load(**variables):
    return load_config(None, {f"HEADRACE_NODE_{name}": value for name, value in variables.items()}).config


def test_a_node_runs_without_any_setting_on_loopback():
    config = load()
    assert (str(config.binary.address), str(config.grpc.address)) == ("127.0.0.1:8100", "127.0.0.1:8101")
    assert str(config.http.address) == "127.0.0.1:8102"
    assert config.cluster.metadata == ("127.0.0.1:8111",)
    assert config.system.path == "local_node"


def test_a_trusted_network_needs_the_secret_alone():
    config = load(
        BINARY_ADDRESS="0.0.0.0:8100",
        GRPC_ADDRESS="0.0.0.0:8101",
        HTTP_ADDRESS="0.0.0.0:8102",
        CLUSTER_TRUSTED_NETWORK="true",
        CLUSTER_METADATA="[metadata-0:8111, metadata-1:8111, metadata-2:8111]",
        **BEYOND,
    )
    assert config.binary.advertised == "node-1:8100"
    assert SECRET not in repr(config)


def test_grpc_may_be_encrypted_instead():
    config = load(GRPC_ADDRESS="0.0.0.0:8101", TLS_CERTIFICATE="a.pem", TLS_KEY="b.pem", **BEYOND)
    assert config.tls.files is not None


def test_the_binary_port_may_be_encrypted_instead():
    """The binary port may have a certificate of its own, or that of gRPC."""
    beyond = {"BINARY_ADDRESS": "0.0.0.0:8100", "BINARY_TLS_ENABLED": "true", **BEYOND}
    config = load(TLS_CERTIFICATE="a.pem", TLS_KEY="b.pem", **beyond)
    assert [file.name for file in config.binary_files] == ["a.pem", "b.pem"]
    config = load(BINARY_TLS_CERT_FILE="c.pem", BINARY_TLS_KEY_FILE="d.pem", **beyond)
    assert [file.name for file in config.binary_files] == ["c.pem", "d.pem"]
    assert config.tls.files is None
    required = load(
        **beyond,
        TLS_CERTIFICATE="a.pem",
        TLS_KEY="b.pem",
        BINARY_TLS_CLIENT_CERTIFICATES="required",
        CLUSTER_AUTHORITY="e.pem",
    )
    assert required.binary_client_authority == "e.pem"


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"NODE_NAME": "no spaces"}, "'no spaces' is not"),
        ({"NODE_LEASE": "1 ms"}, "node.lease"),
        ({"BINARY_ADVERTISED": "somewhere"}, "not host:port"),
        ({"BINARY_ADDRESS": "0.0.0.0:8100"}, "cluster.secret is needed"),
        ({"HTTP_ADDRESS": "0.0.0.0:8102"}, "cluster.secret is needed"),
        ({"BINARY_ADDRESS": "0.0.0.0:8100", **BEYOND}, "binary.address .* not encrypted"),
        ({"GRPC_ADDRESS": "0.0.0.0:8101", **BEYOND}, "tls.cert_file and tls.key_file are needed"),
        (
            {"GRPC_ADDRESS": "0.0.0.0:1", "CLUSTER_SECRET": SECRET, "CLUSTER_TRUSTED_NETWORK": "true"},
            "set grpc.advertised to",
        ),
        ({"TLS_KEY": "key.pem"}, "together or not at all"),
        ({"BINARY_TLS_KEY_FILE": "key.pem"}, "together or not at all"),
        ({"BINARY_TLS_ENABLED": "true"}, "binary.tls.cert_file and binary.tls.key_file, or tls.cert_file"),
        ({"BINARY_TLS_CLIENT_CERTIFICATES": "required"}, "needs binary.tls.enabled"),
        (
            {
                "BINARY_TLS_ENABLED": "true",
                "BINARY_TLS_CLIENT_CERTIFICATES": "required",
                "TLS_CERTIFICATE": "a.pem",
                "TLS_KEY": "b.pem",
            },
            "needs binary.tls.client_ca_file, or cluster.authority",
        ),
        (
            {
                "BINARY_ADDRESS": "0.0.0.0:8100",
                "TLS_CERTIFICATE": "a.pem",
                "TLS_KEY": "b.pem",
                **BEYOND,
            },
            "binary.tls.enabled = true encrypts it",
        ),
        ({"GRPC_ADRESS": "127.0.0.1:1"}, "GRPC_ADDRESS"),
        ({"DURABILITY": "never"}, "durability"),
    ],
)
def test_what_is_refused(variables, reason):
    """CTL-6: an invalid setting prevents the start and is named."""
    with pytest.raises(SettingsError, match=reason):
        load(**variables)
