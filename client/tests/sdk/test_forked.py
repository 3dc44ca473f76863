"""After a fork: what belongs to the parent is refused in the child, a new client works, and the parent goes on."""

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import headrace
from headrace_embedded import Server

FORKING = "use of fork\\(\\) may lead to deadlocks|Other threads are currently"
pytestmark = pytest.mark.filterwarnings(f"ignore:.*{FORKING}")


def in_child(work: Callable[[], None]) -> None:
    """Run work in a forked child, and fail with what it printed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        with suppress(BaseException):
            signal.alarm(60)
            os.close(reading)
            try:
                work()
                status = 0
            except BaseException:  # noqa: BLE001 - a child reports everything
                os.write(writing, traceback.format_exc().encode())
        os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as output:
        report = output.read().decode()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, report


@pytest.fixture
def client(server: Server, request: pytest.FixtureRequest) -> Iterator[headrace.Client]:
    with headrace.connect(server.address, username=server.username, password=server.password) as client:
        client.create_stream(request.node.name)
        client.create_topic(request.node.name, "t")
        yield client
        client.delete_stream(request.node.name)


def test_what_belongs_to_the_parent_is_refused(client: headrace.Client, request: pytest.FixtureRequest) -> None:
    stream, parent = request.node.name, os.getpid()
    producer = client.producer(stream, "t")
    consumer = client.consumer(stream, "t", name="n")
    # Neither has its result when the child begins.
    delivery, deliveries = producer.send(b"1"), producer.send_many([b"2", b"3"])
    uses: list[Callable[[], object]] = [
        client.ping,
        client.streams,
        lambda: client.producer(stream, "t").send(b"x"),
        lambda: producer.send(b"x"),
        lambda: producer.send_many([b"x"]),
        producer.flush,
        producer.close,
        producer.abort,
        lambda: producer.counters,
        lambda: producer.partitions_count,
        delivery.done,
        delivery.result,
        deliveries.done,
        deliveries.result,
        consumer.poll,
        lambda: next(iter(consumer)),
        lambda: consumer.seek(0, 0),
        lambda: consumer.position(0),
        lambda: consumer.pause(0),
        lambda: consumer.resume(0),
        consumer.close,
    ]
    # The third makes one of the child's own, which works.
    own = uses.pop(2)

    def work() -> None:
        for use in uses:
            with pytest.raises(headrace.ClientClosed, match=f"belongs to process {parent} .* make a new one"):
                use()
        assert repr(delivery) == "Delivery(of another process)"
        assert repr(deliveries) == "Deliveries(of another process)"
        own()

    in_child(work)
    assert delivery.result(60).offset == 0
    assert [count for _, count in deliveries.result(60)] == [2]
    # The child's own message may have followed at once.
    assert [message.payload for message in consumer.poll(60) or ()][:3] == [b"1", b"2", b"3"]
    consumer.close()
    producer.close()


def test_a_new_client_in_the_child_works(
    client: headrace.Client, server: Server, request: pytest.FixtureRequest
) -> None:
    stream = request.node.name

    def work() -> None:
        with headrace.connect(server.address, username=server.username, password=server.password) as mine:
            with mine.producer(stream, "t") as producer:
                producer.send(b"of the child")
            assert [message.payload for message in mine.read(stream, "t")] == [b"of the child"]

    in_child(work)
    assert [message.payload for message in client.read(stream, "t")] == [b"of the child"]


def test_objects_of_the_parent_can_be_dropped_in_the_child(
    client: headrace.Client, request: pytest.FixtureRequest
) -> None:
    kept = {"producer": client.producer(request.node.name, "t"), "consumer": client.consumer(request.node.name, "t")}

    def work() -> None:
        kept.clear()
        client.close()

    in_child(work)
    producer, consumer = kept["producer"], kept["consumer"]
    assert isinstance(producer, headrace.Producer)
    assert isinstance(consumer, headrace.Consumer)
    producer.send(b"x")
    producer.close()
    consumer.close()
    client.ping()


def test_closing_in_the_child_leaves_the_embedded_server_of_the_parent_alone(tmp_path: Path) -> None:
    with headrace.connect(f"headrace+embedded://{tmp_path}") as client:
        client.create_stream("s")
        in_child(client.close)
        assert [stream.name for stream in client.streams()] == ["s"]
