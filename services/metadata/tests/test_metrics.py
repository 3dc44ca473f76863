"""Metrics can be fetched over HTTP."""

import urllib.error
import urllib.request

import pytest
from fake_native import FakeNative

from headrace_metadata.errors import ListenError
from headrace_metadata.metrics import Metrics
from headrace_proto.cluster_token import authorization, metrics_authorization
from headrace_settings import Address

STATUS = {
    "role": "primary",
    "op": 7,
    "syncing": False,
    "storage": {"group_commits": 3},
    "state": {"pending_stages": 4},
    "counters": {"proposed": 5},
    "peers": [
        {"replica": 1, "address": "a:1", "connected": True},
        {"replica": 2, "address": "b:1", "connected": False},
    ],
}


def fetch(address, path="/metrics", **headers):
    request = urllib.request.Request(f"http://{address}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.read().decode().splitlines()


def test_the_status_and_what_was_proposed_are_served():
    metrics = Metrics(lambda: STATUS)
    metrics.proposed("applied", 0.003)
    metrics.proposed("NotPrimaryError", 0.0001)
    metrics.applied(3, 0.0004)
    with metrics.served(Address.parse("127.0.0.1:0")) as address:
        lines = fetch(address)
        with pytest.raises(ListenError, match=str(address.port)), metrics.served(address):
            pass
    for line in (
        "headrace_metadata_op 7.0",
        "headrace_metadata_syncing 0.0",
        "headrace_metadata_storage_group_commits 3.0",
        "headrace_metadata_pending_stages 4.0",
        "headrace_metadata_proposed_total 5.0",
        'headrace_metadata_peer_connected{peer="1"} 1.0',
        'headrace_metadata_peer_connected{peer="2"} 0.0',
        'headrace_metadata_commands_total{outcome="applied"} 1.0',
        'headrace_metadata_propose_seconds_bucket{le="0.005"} 2.0',
        'headrace_metadata_propose_seconds_bucket{le="0.002"} 1.0',
        'headrace_metadata_apply_seconds_bucket{le="0.0005"} 1.0',
        "headrace_metadata_apply_commands_sum 3.0",
        'headrace_metadata_role{role="primary"} 1.0',
        'headrace_metadata_role{role="backup"} 0.0',
    ):
        assert line in lines


def test_nothing_is_served_unless_configured():
    with Metrics(FakeNative().status_json).served(None) as address:
        assert address is None


def test_who_asks_for_metrics_shows_the_token_of_the_cluster():
    token = metrics_authorization("the secret of a cluster", "tests")
    other = metrics_authorization("the secret that comes next", "tests")
    with Metrics(lambda: STATUS).served(Address.parse("127.0.0.1:0"), (other, token)) as address:
        for headers in ({}, {"Authorization": ""}, {"Authorization": token[:-1]}, {"Authorization": f"{token}0"}):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                fetch(address, **headers)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            fetch(address, Authorization=authorization("the secret of a cluster", "tests"))
        assert "headrace_metadata_op 7.0" in fetch(address, Authorization=token)
        assert "headrace_metadata_op 7.0" in fetch(address, Authorization=other), "while the secret is changed"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetch(address, "/", Authorization=token)


def test_every_caller_may_ask_whether_the_replica_is_at_work():
    status = dict(STATUS)
    with Metrics(lambda: status).served(Address.parse("127.0.0.1:0"), ("Bearer x",)) as address:
        assert fetch(address, "/health") == ["primary"]
        status["role"] = "view_change"
        with pytest.raises(urllib.error.HTTPError, match="503"):
            fetch(address, "/health")
