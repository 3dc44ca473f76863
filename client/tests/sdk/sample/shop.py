"""Orders of a shop, with calls that wait."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import headrace
from headrace import (
    END,
    FIRST,
    BufferFull,
    Client,
    ClientOptions,
    Consumer,
    ConsumerOptions,
    Delivered,
    Deliveries,
    Delivery,
    Gap,
    HeadraceError,
    Message,
    MessageBatch,
    Producer,
    ProducerCounters,
    ProducerOptions,
    Start,
    at_offset,
    at_time,
)

LOG = logging.getLogger(__name__)


@dataclass
class Report:
    """Observations of a run."""

    payloads: list[bytes] = field(default_factory=list[bytes])
    assigned: list[int] = field(default_factory=list[int])
    gaps: list[Gap] = field(default_factory=list[Gap])

    def on_assigned(self, partitions: Sequence[int]) -> None:
        """Note partitions."""
        self.assigned.extend(partitions)


def prepared(client: Client) -> headrace.Topic:
    """Make the stream and its topic, if they do not exist."""
    try:
        stream: headrace.Stream = client.create_stream("shop")
    except headrace.AlreadyExists:
        stream = client.stream("shop")
    LOG.info("stream %d %s", stream.id, stream.name)
    try:
        return client.topic(stream.name, "orders")
    except headrace.NotFound as missing:
        LOG.info("%s (%s)", missing, missing.code)
    return client.create_topic("shop", "orders", partitions=2, message_expiry=timedelta(days=7))


def placed(producer: Producer, orders: Sequence[bytes]) -> list[Delivered]:
    """Send orders of one customer."""
    deliveries: list[Delivery] = []
    for order in orders:
        try:
            deliveries.append(producer.send(order, key="customer-7", headers={"weight": 0.4, "gift": False}, timeout=0))
        except BufferFull:
            producer.flush(timeout=10)
            deliveries.append(producer.send(order, key=b"customer-7", message_id=7))
    return [delivery.result(timeout=10) for delivery in deliveries]


def bulk(producer: Producer, orders: Sequence[bytes]) -> int:
    """Send many orders at once."""
    deliveries: Deliveries = producer.send_many(orders, partition=0)
    runs: list[tuple[Delivered, int]] = deliveries.result(10)
    counters: ProducerCounters = producer.counters
    assert counters.batches_failed == 0
    return sum(count for _, count in runs) if deliveries.done() else len(deliveries)


def copied(client: Client) -> int:
    """Copy orders as tables: those of a scan, those of a consumer, and a single batch."""
    with client.producer("shop", "copies") as producer:
        deliveries: Deliveries = producer.write_arrow(
            client.scan("shop", "orders", columns=["key", "value"]), timeout=10
        )
        with client.consumer("shop", "orders") as consumer:
            again: Deliveries = producer.write_arrow(consumer.batches(timeout=5))
        with client.consumer("shop", "orders") as consumer:
            for batch in consumer.batches():
                packed: Deliveries = producer.write_arrow(batch, codec="arrow")
                assert len(packed) == 1
                break
    return len(deliveries) + len(again)


def orders_of(consumer: Consumer, count: int, report: Report) -> Iterator[Message]:
    """Read a number of orders."""
    for number, message in enumerate(consumer, 1):
        key: bytes | None = message.key
        moment: datetime = message.timestamp
        LOG.info("%s of %s at %s in %d", message.payload, key, moment, message.partition_id)
        report.payloads.append(message.payload)
        yield message
        if number == count:
            break
    report.gaps.extend(consumer.gaps)


def batches_of(client: Client) -> list[list[bytes]]:
    """Read by batches, and store offsets by hand."""
    options = ConsumerOptions(commit="manual")
    found: list[list[bytes]] = []
    with client.consumer("shop", "orders", name="audit", start=FIRST, commit=options.commit) as consumer:
        while (batch := consumer.poll(timeout=2)) is not None:
            found.append(batch.payloads())
            assert batch.first_offset <= batch.next_offset <= batch.last_offset + 1
            consumer.commit()
            consumer.pause(batch.partition_id)
            consumer.resume()
        for partition in consumer.assignment:
            LOG.info("partition %d: %s, lag %s", partition, consumer.position(partition), consumer.lag())
    return found


def starts() -> list[Start]:
    """All places where reading can begin."""
    return [FIRST, END, at_offset(3), at_time(datetime.now(UTC))]


def run(url: str) -> Report:
    """Place orders and read them."""
    report = Report()
    with headrace.connect(url, options=ClientOptions(request_timeout=10)) as client:
        topic = prepared(client)
        assert topic.partitions_count == 2
        with client.producer("shop", "orders", linger=0.001, batch_bytes=ProducerOptions().batch_bytes) as producer:
            places = placed(producer, [b"1", b"2"])
            assert places[0].partition_id == places[1].partition_id
            assert bulk(producer, [b"3", b"4"]) == 2
        with client.consumer("shop", "orders", group="billing", on_assigned=report.on_assigned) as consumer:
            for message in orders_of(consumer, 4, report):
                consumer.commit(message, timeout=10)
        batch: MessageBatch = client.read("shop", "orders", start="first", count=10)
        LOG.info("%d messages, %d batches", len(batch), len(batches_of(client)))
        described: list[headrace.PartitionDescription] = client.partitions("shop", "orders")
        group: headrace.ConsumerGroup = client.group("shop", "orders", "billing")
        offset: headrace.ConsumerOffset | None = client.offset("shop", "orders", 0, group=group.name)
        cluster: headrace.Cluster = client.cluster()
        stats: headrace.Stats = client.stats()
        capabilities: headrace.Capabilities = client.capabilities()
        me: headrace.Connection = client.me()
        LOG.info("%s %s %s %s %s %s", len(described), offset, cluster, stats, capabilities, me)
        client.create_topic("shop", "copies", partitions=2)
        assert copied(client) == 8
        permitted(client)
        try:
            client.delete_stream("missing")
        except HeadraceError as error:
            LOG.info("%s %s %s", error, error.code, error.retryable)
    return report


def permitted(client: Client) -> None:
    """Give a user a permission, and make a token."""
    rights = headrace.TopicPermissions(poll_messages=True)
    permissions = headrace.Permissions(
        everywhere=headrace.GlobalPermissions(read_streams=True),
        streams={0: headrace.StreamPermissions(topics={0: rights})},
    )
    user: headrace.User = client.create_user("anna", "a secret of hers", permissions=permissions)
    secret: str = client.create_token("for the night", expiry=timedelta(hours=8))
    tokens: list[headrace.AccessToken] = client.tokens()
    LOG.info("%s %d %s", user.username, len(secret), [token.name for token in tokens])
