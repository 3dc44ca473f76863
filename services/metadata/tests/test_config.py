"""Settings: their names, defaults and bounds (CTL-6)."""

import json
from pathlib import Path

import pytest

from headrace_metadata.config import ClusterSettings, ReplicaTlsSettings, StateSettings, load_config
from headrace_metadata.native import ReplicaDescription
from headrace_settings import Secret, SettingsError, settings_of

SECRET = "a secret of thirty-two bytes or more"
THREE = "a:1, b:2, c:3"


def test_names_and_defaults():
    values = {setting.dotted: str(setting.field.default) for setting in settings_of(StateSettings)}
    assert values == {"enforce_fsync": "True", "snapshot_commands": "1024", "snapshot_journal_size": "16 MiB"}
    assert all(setting.description for setting in settings_of(StateSettings))


@pytest.mark.parametrize("settings", [{"snapshot_commands": 0}, {"snapshot_journal_size": "1 KiB"}, {"unknown": 1}])
def test_bounds(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        StateSettings(**settings)


def load(**variables):
    return load_config(None, {f"HEADRACE_METADATA_{name}": value for name, value in variables.items()}).config


def test_the_service_runs_without_any_setting_on_loopback():
    config = load()
    assert config.cluster.members == ("127.0.0.1:8110",)
    assert str(config.grpc.address) == "127.0.0.1:8111"
    assert config.metrics.address is None


def test_three_replicas_from_the_environment():
    members = {"CLUSTER_MEMBERS": f"[{THREE}]", "CLUSTER_REPLICA": "2", "CLUSTER_SECRET": SECRET}
    for listen in ({}, {"CLUSTER_LISTEN": "0.0.0.0:9"}):
        with pytest.raises(SettingsError, match=r"not loopback: tls\.cert_file"):
            load(**members, **listen)
    config = load(**members, CLUSTER_LISTEN="127.0.0.1:9")
    assert config.cluster.members == ("a:1", "b:2", "c:3")
    assert SECRET not in repr(config)


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"CLUSTER_MEMBERS": "a:1, b:2", "CLUSTER_SECRET": SECRET}, "one, three or five"),
        ({"CLUSTER_MEMBERS": "a:1, b:2, a:1", "CLUSTER_SECRET": SECRET}, "twice"),
        ({"CLUSTER_MEMBERS": "a:1, b, c:3", "CLUSTER_SECRET": SECRET}, "'b' is not host:port"),
        ({"CLUSTER_MEMBERS": THREE, "CLUSTER_REPLICA": "3", "CLUSTER_SECRET": SECRET}, "members, which are 0 to 2"),
        (
            {"CLUSTER_MEMBERS": THREE, "CLUSTER_GIVEN_UP": "0", "CLUSTER_SECRET": SECRET},
            "must list indexes of other members",
        ),
        (
            {"CLUSTER_MEMBERS": THREE, "CLUSTER_GIVEN_UP": "3", "CLUSTER_SECRET": SECRET},
            "must list indexes of other members",
        ),
        ({"CLUSTER_MEMBERS": THREE, "CLUSTER_GIVEN_UP": "1, 2", "CLUSTER_SECRET": SECRET}, "a majority"),
        ({"CLUSTER_MEMBERS": THREE}, "need a secret"),
        ({"CLUSTER_SECRET": "short"}, "fewer than 32 bytes"),
        ({"CLUSTER_SECRET": "x" * 31}, "openssl rand -hex 32"),
        ({"CLUSTER_SECRET": SECRET, "CLUSTER_ACCEPTED_SECRET": "short"}, "the accepted_secret has fewer than 32 bytes"),
        ({"CLUSTER_ACCEPTED_SECRET": SECRET}, "accepted_secret needs secret"),
        ({"CLUSTER_NAME": "no spaces"}, "'no spaces' is not"),
        ({"GRPC_ADDRESS": "0.0.0.0:1"}, "cluster.secret is needed"),
        ({"GRPC_ADDRESS": "0.0.0.0:1", "CLUSTER_SECRET": SECRET}, "tls.cert_file"),
        ({"TLS_KEY": "key.pem"}, "together or not at all"),
        ({"GRPC_ADRESS": "127.0.0.1:1"}, "GRPC_ADDRESS"),
    ],
)
def test_what_is_wrong_is_said(variables, reason):
    with pytest.raises(SettingsError, match=reason.replace("(", r"\(")):
        load(**variables)


def test_beyond_loopback_with_a_secret_and_certificates():
    files = {"TLS_CERTIFICATE": "c.pem", "TLS_KEY": "k.pem", "TLS_AUTHORITY": "a.pem"}
    config = load(GRPC_ADDRESS="0.0.0.0:8111", CLUSTER_SECRET=SECRET, **files)
    assert config.tls.peer_files == ("c.pem", "k.pem", "a.pem")


def test_metrics_beyond_loopback_need_a_secret():
    with pytest.raises(SettingsError, match=r"metrics.address = 0.0.0.0:8112 is not loopback"):
        load(METRICS_ADDRESS="0.0.0.0:8112")
    assert load(METRICS_ADDRESS="0.0.0.0:8112", CLUSTER_SECRET=SECRET).metrics.address is not None


def test_what_the_native_replica_receives():
    cluster = ClusterSettings(members=("a:1", "b:2", "c:3"), replica=1, given_up=(2,), secret=Secret(SECRET))
    state = StateSettings(enforce_fsync=False)
    tls = ReplicaTlsSettings(cert_file="c", key_file="k", authority="a")
    document = ReplicaDescription(directory=Path("/data"), cluster=cluster, state=state, tls=tls).document()
    assert json.loads(document) == {
        "directory": "/data",
        "cluster": "headrace",
        "replica": 1,
        "replicas": ["a:1", "b:2", "c:3"],
        "listen": None,
        "secret": SECRET,
        "accepted_secret": "",
        "tls": {"certificate": "c", "key": "k", "authority": "a"},
        "timeouts": "default",
        "given_up": [2],
        "sync": True,
        "checkpoint_ops": 1024,
        "checkpoint_bytes": 16 * 1024 * 1024,
    }
    alone = ReplicaDescription(
        directory=Path("/data"), cluster=ClusterSettings(), state=state, tls=ReplicaTlsSettings()
    )
    reported = json.loads(alone.document())
    assert (reported["replicas"], reported["sync"], reported["tls"]) == ([""], False, None), (
        "only a cluster always syncs"
    )
