"""SPK-1, SPK-2: partitions move to another address, and to another node, during a query."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from place import PASSWORD_VARIABLE
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from queries import wait_for
from tests.cluster import NAME, Cluster, NodeProcess
from tests.faults.spark.results import read_topic
from tests.ports import free_port
from tests.server_process import PASSWORD, USERNAME

from headrace_core import Client
from headrace_metadata_client import MetadataTarget, Session, connected
from headrace_proto.catalog.v1 import TopicPlacement
from headrace_proto.metadata.v1 import Command, CompletedPlacement, CompletePlacements, PlacePartition

STREAM = "moves"
PARTITIONS_COUNT = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    settings = {"durability": "fsync"}
    with Cluster(tmp_path, replicas=1, nodes=2, gateways=1, node_settings=settings) as cluster:
        yield cluster


def placements(cluster: Cluster) -> list[TopicPlacement]:
    return list(cluster.state().catalog.topic_placements)


def send(cluster: Cluster, numbers: range) -> Counter[bytes]:
    """Append to every partition once its node is ready."""
    client = Client.connect(cluster.gateways[0].listeners.tcp)
    client.login(USERNAME, PASSWORD)
    payloads = {part: [f"{part}:{number}".encode() for number in numbers] for part in range(PARTITIONS_COUNT)}
    for part, messages in payloads.items():
        client.send(STREAM, "a", messages, partition=part)
    client.close()
    return Counter(message for messages in payloads.values() for message in messages)


def elsewhere(node: NodeProcess) -> None:
    """Restart a node on other ports, like a container that moves to another machine with its disk."""
    node.kill()
    node.binary, node.grpc, node.http = (f"127.0.0.1:{free_port()}" for _ in range(3))
    node.settings |= {"binary.address": node.binary, "grpc.address": node.grpc, "http.address": node.http}
    node.start()


def swap(cluster: Cluster) -> None:
    """Exchange the partitions of two nodes, with their directories, while both are down."""
    nodes = {
        node.id: next(it for it in cluster.nodes if it.name == node.name) for node in cluster.state().catalog.nodes
    }
    commands = []
    for topic in placements(cluster):
        for number, partition in enumerate(topic.partitions):
            (other,) = nodes.keys() - {partition.holder_node_id}
            directory = f"streams/{topic.stream_id}/topics/{topic.topic_id}/partitions/{number}"
            shutil.move(nodes[partition.holder_node_id].data / directory, nodes[other].data / directory)
            place = PlacePartition(
                stream_id=topic.stream_id, topic_id=topic.topic_id, partition_id=number, node_ids=[other]
            )
            commands.append(Command(place_partition=place))
    propose(cluster, *commands)
    propose(
        cluster,
        *(
            Command(
                complete_placements=CompletePlacements(
                    stream_id=topic.stream_id,
                    topic_id=topic.topic_id,
                    placements=[
                        CompletedPlacement(partition_id=number, epoch=partition.epoch)
                        for number, partition in enumerate(topic.partitions)
                    ],
                )
            )
            for topic in placements(cluster)
        ),
    )


def propose(cluster: Cluster, *commands: Command) -> None:
    async def all_of_them() -> None:
        target = MetadataTarget(
            addresses=(cluster.replicas[0].address,), cluster=NAME, secret=cluster.secret, authority=None
        )
        async with connected(target) as connections:
            session = Session(connections.stubs, connections.metadata)
            for command in commands:
                reply = (await session.propose(command)).reply
                assert reply.status == 0, reply

    asyncio.run(all_of_them())


def written(cluster: Cluster) -> Counter[bytes]:
    return Counter(read_topic(cluster.gateways[0].listeners.tcp, STREAM, "out").values())


def test_partitions_that_come_back_elsewhere(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    client = Client.connect(cluster.gateways[0].listeners.tcp)
    client.login(USERNAME, PASSWORD)
    client.create_stream(STREAM)
    client.create_topic(STREAM, "a", PARTITIONS_COUNT)
    client.create_topic(STREAM, "out", PARTITIONS_COUNT)
    client.close()
    where = {
        "servers": cluster.gateways[0].listeners.grpc,
        "username": USERNAME,
        "passwordEnv": PASSWORD_VARIABLE,
        "stream": STREAM,
        "retry.max": "40",
    }
    frame = spark.readStream.format("headrace").options(**where, subscribe="a", startingOffsets="earliest").load()
    expected = send(cluster, range(50))
    query: StreamingQuery = (
        frame.select("key", "value")
        .writeStream.format("headrace")
        .options(**where, topic="out")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        wait_for(lambda: written(cluster) == expected, query)

        elsewhere(cluster.nodes[0])
        cluster.wait_ready()
        expected += send(cluster, range(50, 100))
        wait_for(lambda: written(cluster) == expected, query)

        for node in cluster.nodes:
            node.kill()
        swap(cluster)
        for node in cluster.nodes:
            node.start()
        cluster.wait_ready()
        expected += send(cluster, range(100, 150))
        wait_for(lambda: written(cluster) == expected, query)
    finally:
        query.stop()
    assert query.exception() is None
