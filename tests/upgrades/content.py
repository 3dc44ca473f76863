"""Content that one release writes and another one reads, through the public API alone. It runs in the Python of either.

    python content.py write headrace://127.0.0.1:8090 PART TOKEN_FILE   write the first or the second part
    python content.py check headrace://127.0.0.1:8090 PARTS TOKEN_FILE  check that so many parts are there, and go on

It imports nothing but the SDK, because it runs in environments with another release of it. What an earlier form of this
program wrote is recorded: a change leaves `check` able to read that.
"""

import sys
from datetime import timedelta
from pathlib import Path

import headrace

ROOT = ("iggy", "iggy")
CLERK = ("clerk", "the secret of the clerk")
MESSAGES = 400
"""Messages of a part, to each partition of `shop/orders`."""
PARTITIONS = 2
RETENTION = timedelta(days=36_500)


def payload(partition: int, number: int) -> bytes:
    """Return the payload of a message: its place, and text of a length that differs."""
    return b"%d:%d " % (partition, number) + b"x" * (number * 37 % 500)


def write(client: headrace.Client, part: int, token_file: Path) -> None:
    """Write one part."""
    if part == 0:
        client.create_stream("gone")
        client.create_topic("gone", "orders")
        with client.producer("gone", "orders") as producer:
            producer.send(b"of a stream that is deleted")
        client.delete_stream("gone")
        # The id of the deleted stream is used again, with another incarnation.
        client.create_stream("shop")
        client.create_topic("shop", "orders", partitions=PARTITIONS)
        client.create_topic("shop", "kept", message_expiry=RETENTION, max_size_bytes=1 << 40)
        client.create_topic("shop", "purged")
        with client.producer("shop", "purged") as producer:
            producer.send(b"before the purge")
        client.purge_topic("shop", "purged")
        reading = headrace.GlobalPermissions(read_streams=True, read_topics=True, poll_messages=True)
        client.create_user(*CLERK, permissions=headrace.Permissions(everywhere=reading))
        token_file.write_text(client.create_token("for the check"))
    with client.producer("shop", "orders") as producer:
        for number in range(part * MESSAGES, (part + 1) * MESSAGES):
            for partition in range(PARTITIONS):
                headers = {"number": number, "source": "web"} if number % 3 == 0 else None
                key = f"customer-{number}" if number % 2 == 0 else None
                producer.send(payload(partition, number), key=key, headers=headers, partition=partition)
    with client.producer("shop", "kept") as producer:
        producer.send(b"part %d" % part, partition=0)
    client.store_offset("shop", "orders", 0, part * MESSAGES + 10, consumer=7)
    with client.consumer("shop", "orders", group="billing", commit="manual") as consumer:
        left = MESSAGES * PARTITIONS
        while left:
            left -= len(consumer.poll(timeout=10) or [])
            consumer.commit()


def check(url: str, parts: int, token_file: Path) -> None:
    """Check that everything is there, then write one more part, and check that."""
    with headrace.connect(url, username=ROOT[0], password=ROOT[1]) as client:
        check_content(client, parts)
        write(client, parts, token_file)
        check_content(client, parts + 1)
    with headrace.connect(url, username=CLERK[0], password=CLERK[1]) as client:
        assert client.topic("shop", "orders").partitions_count == PARTITIONS
        try:
            client.create_stream("not permitted")
        except headrace.PermissionDenied:
            pass
        else:
            raise AssertionError("the clerk may create a stream")
    with headrace.connect(url, token=token_file.read_text()) as client:
        assert client.user(ROOT[0]).username == ROOT[0]


def check_content(client: headrace.Client, parts: int) -> None:
    """Check that so many parts are there, and nothing else."""
    assert [stream.name for stream in client.streams()] == ["shop"]
    assert {topic.name for topic in client.topics("shop")} == {"kept", "orders", "purged"}
    for partition in range(PARTITIONS):
        check_messages(client, partition, parts * MESSAGES)
    assert [message.payload for message in client.read("shop", "kept")] == [b"part %d" % part for part in range(parts)]
    assert list(client.read("shop", "purged")) == []
    kept = client.topic("shop", "kept")
    assert kept.message_expiry_micros == RETENTION // timedelta(microseconds=1)
    assert kept.max_size_bytes == 1 << 40
    offset = client.offset("shop", "orders", 0, consumer=7)
    assert offset is not None
    assert offset.stored_offset == (parts - 1) * MESSAGES + 10
    for partition in range(PARTITIONS):
        offset = client.offset("shop", "orders", partition, group="billing")
        assert offset is not None
        assert offset.stored_offset == parts * MESSAGES - 1


def check_messages(client: headrace.Client, partition: int, count: int) -> None:
    """Check the messages of a partition of `shop/orders`."""
    number = 0
    while number < count:
        batch = client.read("shop", "orders", partition=partition, start=headrace.at_offset(number), count=1000)
        for message in batch:
            assert message.offset == number, f"offset {message.offset} in place of {number}"
            assert message.payload == payload(partition, number)
            assert message.key == (b"customer-%d" % number if number % 2 == 0 else None)
            assert message.headers == ({"number": number, "source": "web"} if number % 3 == 0 else {})
            number += 1
        assert len(batch), f"partition {partition} ends at {number} of {count}"
    assert number == count


if __name__ == "__main__":
    command, url, part, token = sys.argv[1:]
    if command == "check":
        check(url, int(part), Path(token))
    else:
        with headrace.connect(url, username=ROOT[0], password=ROOT[1]) as connected:
            write(connected, int(part), Path(token))
