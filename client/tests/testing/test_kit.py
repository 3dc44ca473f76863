"""The testing kit, tested with the means that it offers (USE-10)."""

import socket
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

import headrace
from headrace.testing import FaultyNetwork, LocalServer


def test_each_test_has_a_topic_of_its_own(
    headrace_client: headrace.Client, headrace_topic: tuple[str, str], headrace_server: LocalServer
) -> None:
    stream, topic = headrace_topic
    assert headrace_client.topic(stream, topic).messages_count == 0
    assert headrace_server.fresh_topic() != headrace_topic


@pytest.mark.alone
def test_a_fresh_topic_takes_less_than_50_milliseconds(headrace_server: LocalServer) -> None:
    headrace_server.fresh_topic()
    durations = []
    for _ in range(9):
        began = time.perf_counter()
        headrace_server.fresh_topic(partitions=3)
        durations.append(time.perf_counter() - began)
    assert sorted(durations)[4] < 0.05


def test_a_restart_keeps_address_and_messages() -> None:
    with LocalServer() as server, headrace.connect(server.url) as client:
        stream, topic = server.fresh_topic()
        with client.producer(stream, topic) as producer:
            producer.send(b"before").result(60)
            server.restart()
            assert producer.send(b"after").result(60).offset == 1
        assert [message.payload for message in client.read(stream, topic)] == [b"before", b"after"]


def test_lost_answers_leave_a_message_uncertain(headrace_server: LocalServer) -> None:
    stream, topic = headrace_server.fresh_topic()
    with FaultyNetwork(headrace_server.address) as network:
        url = headrace_server.url_of(network.address)
        with headrace.connect(url) as client, client.producer(stream, topic) as producer:
            producer.send(b"first").result(60)
            network.lose_answers()
            delivery = producer.send(b"second")
            _wait_for(lambda: headrace_server.client.topic(stream, topic).messages_count == 2)
            network.heal()
            with pytest.raises(headrace.OutcomeUnknown) as raised:
                delivery.result(60)
            assert not raised.value.retryable
            assert producer.send(b"third").result(60).offset == 2


def test_a_wait_that_ends_early_is_not_to_be_repeated(headrace_server: LocalServer) -> None:
    stream, topic = headrace_server.fresh_topic()
    with FaultyNetwork(headrace_server.address) as network:
        url = headrace_server.url_of(network.address)
        # The first message may be on its way when the connection breaks.
        with headrace.connect(url) as client, client.producer(stream, topic, resend_uncertain=True) as producer:
            network.part()
            deliveries = producer.send(b"one"), producer.send_many([b"two"])
            for delivery in deliveries:
                with pytest.raises(headrace.DeadlineExceeded) as raised:
                    delivery.result(0)
                assert not raised.value.retryable, "the message is still being sent"
            network.heal()
            producer.flush(60)
    assert headrace_server.client.topic(stream, topic).messages_count == 2


def test_a_parted_network_heals(headrace_server: LocalServer) -> None:
    stream, topic = headrace_server.fresh_topic()
    with FaultyNetwork(headrace_server.address) as network:
        url = headrace_server.url_of(network.address)
        with (
            headrace.connect(url) as client,
            # The first message may be on its way when the connection breaks.
            client.producer(stream, topic, resend_uncertain=True) as producer,
            client.consumer(stream, topic, group="readers") as consumer,
        ):
            network.part()
            delivery = producer.send(b"waits")
            network.heal()
            assert delivery.result(60).offset in {0, 1}
            batch = consumer.poll(60)
            assert batch is not None
            assert set(batch.payloads()) == {b"waits"}


def test_data_is_cut_in_the_middle_of_a_batch(headrace_server: LocalServer) -> None:
    stream, topic = headrace_server.fresh_topic()
    with FaultyNetwork(headrace_server.address) as network:
        url = headrace_server.url_of(network.address)
        with (
            headrace.connect(url) as client,
            # Messages share a batch, however long they take: it is sent when it has all of them.
            client.producer(stream, topic, linger=600, batch_messages=100) as producer,
        ):
            producer.send(b"first")
            producer.flush(60)
            network.cut_after(1000)
            deliveries = [producer.send(bytes(100), partition=0) for _ in range(100)]
            outcomes: set[object] = set()
            for delivery in deliveries:
                try:
                    outcomes.add(delivery.result(60).partition_id)
                except headrace.OutcomeUnknown as error:
                    outcomes.add(type(error))
            assert len(outcomes) == 1, "a batch is stored as a whole, or not at all"


def _wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_nothing_passes_a_lossy_connection_while_it_heals() -> None:
    """Regression: an answer that was under way when the network healed arrived in some runs."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        with FaultyNetwork(f"{host}:{port}") as network:
            for _ in range(200):
                with socket.create_connection(("127.0.0.1", int(network.address.rpartition(":")[2]))) as client:
                    server, _ = listener.accept()
                    client.settimeout(20)
                    with server:
                        client.sendall(b"?")
                        assert server.recv(1) == b"?"
                        network.lose_answers()
                        server.sendall(b"answer")
                        network.heal()
                        with suppress(ConnectionResetError):
                            assert client.recv(10) == b""
