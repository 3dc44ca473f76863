"""Metrics can be fetched over HTTP."""

from contextlib import asynccontextmanager

import aiohttp
import pytest
from fake_native import FakeNative

from headrace_chassis.admin_http import serving
from headrace_chassis.errors import ListenError
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


@asynccontextmanager
async def served(metrics, address="127.0.0.1:0", authorizations=()):
    pages = serving(
        Address.parse(address), health=metrics.health, metrics=metrics.registry, authorizations=authorizations
    )
    async with pages as bound:
        yield bound


async def fetch(address, path="/metrics", **headers):
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}", headers=headers) as response:
        return response.status, (await response.text()).splitlines()


async def test_the_status_and_what_was_proposed_are_served():
    metrics = Metrics(lambda: STATUS)
    metrics.proposed("applied", 0.003)
    metrics.proposed("NotPrimaryError", 0.0001)
    metrics.applied(3, 0.0004)
    async with served(metrics) as address:
        status, lines = await fetch(address)
        assert status == 200
        with pytest.raises(ListenError, match=str(address.port)):
            async with served(metrics, str(address)):
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


async def test_nothing_is_served_unless_configured():
    metrics = Metrics(FakeNative().status_json)
    async with serving(None, health=metrics.health, metrics=metrics.registry) as address:
        assert address is None


async def test_who_asks_for_metrics_shows_the_token_of_the_cluster():
    token = metrics_authorization("the secret of a cluster", "tests")
    other = metrics_authorization("the secret that comes next", "tests")
    async with served(Metrics(lambda: STATUS), authorizations=(other, token)) as address:
        for headers in ({}, {"Authorization": ""}, {"Authorization": token[:-1]}, {"Authorization": f"{token}0"}):
            assert (await fetch(address, **headers))[0] == 401
        assert (await fetch(address, Authorization=authorization("the secret of a cluster", "tests")))[0] == 401
        assert "headrace_metadata_op 7.0" in (await fetch(address, Authorization=token))[1]
        assert "headrace_metadata_op 7.0" in (await fetch(address, Authorization=other))[1], "while the secret changes"
        assert (await fetch(address, "/", Authorization=token))[0] == 404


async def test_every_caller_may_ask_whether_the_replica_is_at_work():
    status = dict(STATUS)
    async with served(Metrics(lambda: status), authorizations=("Bearer x",)) as address:
        assert await fetch(address, "/health") == (200, ['{"status": "primary"}'])
        status["role"] = "view_change"
        assert await fetch(address, "/health") == (503, ['{"status": "view_change"}'])
        assert await fetch(address, "/live") == (200, ['{"status": "view_change"}'])
