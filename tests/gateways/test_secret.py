"""Rotation of the cluster secret at runtime: service by service, in three rounds (docs/encryption.md)."""

from __future__ import annotations

import secrets
from pathlib import Path

import aiohttp
import grpc
import pytest

from headrace_core import TicketError, TicketKey
from headrace_proto.cluster_token import HEADER, authorization, metrics_authorization
from headrace_proto.metadata.v1 import GetSnapshotRequest
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub
from tests.apis.http.api import Api, batch, payloads
from tests.cluster import NAME, Cluster, ClusterReplica, GatewayProcess, NodeProcess
from tests.gateways.conftest import GATEWAY, NODE


def reconfigure(service: ClusterReplica | NodeProcess | GatewayProcess, secret: str, accepted: str | None) -> None:
    """Change the secrets of a service for its next start. Without `accepted`, the same secret is accepted."""
    if isinstance(service, ClusterReplica):
        service.reconfigure({"CLUSTER_SECRET": secret, "CLUSTER_ACCEPTED_SECRET": accepted or secret})
    else:
        service.settings |= {"cluster.secret": secret, "cluster.accepted_secret": accepted or secret}


def status_of_caller(replica: ClusterReplica, secret: str) -> grpc.StatusCode:
    """Return the gRPC code of a call with this secret."""
    shown = ((HEADER, authorization(secret, NAME)),)
    with grpc.insecure_channel(replica.address) as channel:
        try:
            list(MetadataStub(channel).GetSnapshot(GetSnapshotRequest(), metadata=shown, timeout=10))
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


@pytest.mark.long
async def test_the_secret_is_changed_while_the_cluster_works(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, nodes=1, gateways=1, node_settings=NODE, gateway_settings=GATEWAY)
    old, new = cluster.secret, secrets.token_hex(32)
    services = [*cluster.replicas, *cluster.nodes, *cluster.gateways]
    sent: list[bytes] = []
    with cluster:
        # A gateway that was restarted has nothing of the connections of before.
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
            root = await Api(session, f"http://{cluster.gateways[0].listeners.http}").login()
            topic = await root.create_topic("rotated")

            async def works(with_token: Api) -> None:
                """Commands, messages and the login of before, through all services."""
                sent.append(b"%d" % len(sent))
                await with_token.ok("POST", "/streams", {"name": f"stream-{len(sent)}"})
                await with_token.ok("POST", f"{topic}/messages", batch(sent[-1], partition=0))
                query = "?consumer_id=1&partition_id=0&kind=offset&value=0&count=100"
                assert payloads(await with_token.ok("GET", f"{topic}/messages{query}")) == sent

            await works(root)
            for secret, accepted in ((old, new), (new, old), (new, None)):
                for service in services:
                    assert service.stop() == 0
                    reconfigure(service, secret, accepted)
                    service.start()
                    cluster.wait_for(service)
                    is_over = service is cluster.gateways[0] and accepted is None
                    if is_over:
                        assert (await root("GET", "/streams")).status == 401, "the login of before is over at last"
                        root = await root.login()
                    await works(root)
            # Logins of the first round were good to the last one; what is made with the old secret opens nothing now.
            for replica in cluster.replicas:
                # Backups say that another replica is the primary.
                assert status_of_caller(replica, new) in {grpc.StatusCode.OK, grpc.StatusCode.FAILED_PRECONDITION}
                assert status_of_caller(replica, old) is grpc.StatusCode.UNAUTHENTICATED
            for address in (cluster.nodes[0].http, cluster.gateways[0].listeners.http, cluster.replicas[0].metrics):
                for secret, status in ((new, 200), (old, 401)):
                    shown = {"Authorization": metrics_authorization(secret, NAME)}
                    async with session.get(f"http://{address}/metrics", headers=shown) as answer:
                        assert answer.status == status, address
    for name, text in cluster.logs().items():
        assert "secrets differ" not in text, name


def test_a_key_recognises_the_tickets_of_two_secrets() -> None:
    old, new = secrets.token_hex(32), secrets.token_hex(32)
    both = TicketKey(new, NAME, accepted_secret=old)
    for signer in (TicketKey(old, NAME), TicketKey(new, NAME), both):
        assert both.verify(signer.sign("x", not_after=100), now=50).holder == "x"
    with pytest.raises(TicketError):
        TicketKey(old, NAME).verify(both.sign("x", not_after=100), now=50)
