"""Objects of the SDK show what they are when they are printed."""

import asyncio

import pytest

import headrace
import headrace.aio
from headrace_embedded import Server


def test_messages_and_deliveries_show_their_contents(server: Server, topic: tuple[str, str]) -> None:
    with headrace.connect(server.address, username=server.username, password=server.password) as client:
        with client.producer(*topic, linger=60) as producer:
            delivery = producer.send(b"one\n\xff", key="customer-7", partition=1)
            assert repr(delivery) == "Delivery(not delivered yet)"
            others = producer.send_many([b"x" * 41], partition=1)
            assert repr(others) == "Deliveries(1 messages, done=False)"
            producer.flush()
            assert repr(delivery) == "Delivery(partition_id=1, offset=0)"
            assert repr(others) == "Deliveries(1 messages, done=True)"
        short, long = client.read(*topic, partition=1)
        assert repr(short) == r"Message(partition_id=1, offset=0, key=b'customer-7', payload=b'one\n\xff')"
        assert repr(long) == f"Message(partition_id=1, offset=1, key=None, payload=b'{'x' * 40}'... (41 B))"


def test_showing_a_failure_is_not_asking_for_it(server: Server, topic: tuple[str, str]) -> None:
    with headrace.connect(server.address, username=server.username, password=server.password) as client:
        producer = client.producer(*topic, linger=60)
        delivery = producer.send(b"x", partition=1)
        client.delete_topic(*topic)
        assert producer._native.flush().wait(60)  # the public `flush` raises the failure
        assert repr(delivery) == "Delivery(failed)"
        with pytest.raises(headrace.HeadraceError):
            producer.close()


def test_clients_producers_and_consumers_name_their_place(server: Server, topic: tuple[str, str]) -> None:
    stream, name = topic
    with headrace.connect(server.address, username=server.username, password=server.password) as client:
        assert repr(client) == f"Client({server.address})"
        with client.producer(stream, name) as producer, client.consumer(stream, name, group="g") as consumer:
            assert repr(producer) == f"Producer(stream={stream!r}, topic='t')"
            assert repr(consumer) == f"Consumer(stream={stream!r}, topic='t', group='g')"

    async def shown() -> list[str]:
        opened = headrace.aio.connect(server.address, username=server.username, password=server.password)
        async with opened as client, client.producer(stream, name) as producer, client.consumer(stream, 0) as consumer:
            delivery = await producer.send(b"x", partition=0)
            await delivery
            return [repr(each) for each in (client, producer, consumer, delivery)]

    assert asyncio.run(shown()) == [
        f"Client({server.address})",
        f"Producer(stream={stream!r}, topic='t')",
        f"Consumer(stream={stream!r}, topic=0, group=None)",
        "AwaitableDelivery(partition_id=0, offset=0)",
    ]
