"""Rules for streams, topics and partitions (CTL-2, SHARD-3), each with the status that clients rely on."""

import pytest
from metadata_commands import (
    NEVER,
    create_partitions,
    create_stream,
    create_topic,
    create_user,
    delete_stream,
    delete_topic,
    permissions_for,
    update_topic,
)

from headrace_metadata.state_machine import StateMachine
from headrace_proto import limits
from headrace_proto.catalog.v1 import COMPRESSION_ALGORITHM_GZIP, COMPRESSION_ALGORITHM_NONE, DURABILITY_FSYNC
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    Command,
    DeletePartitions,
    PurgeStream,
    PurgeTopic,
    UpdateStream,
)


class Driver:
    """A machine that applies one command after the other."""

    def __init__(self):
        self.machine = StateMachine()

    def __call__(self, command):
        return self.machine.apply(self.machine.op + 1, self.machine.timestamp_micros + 10, command)

    def status(self, command):
        applied = self(command)
        assert applied.reply.status == 0 or applied.update is None
        return applied.reply.status

    def topic(self, stream_id, topic_id):
        return next(
            topic for topic in self.machine.catalog().topics if (topic.stream_id, topic.id) == (stream_id, topic_id)
        )


@pytest.fixture
def do():
    return Driver()


def update_stream(stream_id, name):
    return Command(update_stream=UpdateStream(stream_id=stream_id, name=name))


def delete_partitions(stream_id, topic_id, count):
    return Command(delete_partitions=DeletePartitions(stream_id=stream_id, topic_id=topic_id, partitions_count=count))


def test_ids_start_at_0_and_the_smallest_free_one_is_next(do):
    assert [do(create_stream(name)).reply.stream.id for name in "abc"] == [0, 1, 2]
    assert do.status(delete_stream(1)) == 0
    assert do.status(delete_stream(0)) == 0
    assert [do(create_stream(name)).reply.stream.id for name in "def"] == [0, 1, 3]


def test_topic_ids_are_per_stream(do):
    for name in ("a", "b"):
        do(create_stream(name))
    assert [do(create_topic(stream_id, "t")).reply.topic.id for stream_id in (0, 1)] == [0, 0]
    assert do(create_topic(0, "u")).reply.topic.id == 1
    assert do.status(delete_topic(0, 0)) == 0
    assert do(create_topic(0, "v")).reply.topic.id == 0


def test_a_reused_id_gets_another_incarnation(do):
    incarnations = set()
    for _ in range(3):
        stream = do(create_stream("s")).reply.stream
        topic = do(create_topic(0, "t")).reply.topic
        do(create_partitions(0, 0, 1))
        partitions = do.topic(0, 0).partitions
        assert partitions[0].incarnation == topic.incarnation
        assert partitions[1].incarnation == do.machine.op
        incarnations |= {stream.incarnation, topic.incarnation, partitions[1].incarnation}
        do(delete_stream(0))
    assert len(incarnations) == 9


def test_created_at_is_the_time_of_the_operation(do):
    stream = do(create_stream("s")).reply.stream
    assert stream.created_at_micros == do.machine.timestamp_micros
    topic = do(create_topic(0, "t")).reply.topic
    assert topic.created_at_micros == do.machine.timestamp_micros
    assert {partition.created_at_micros for partition in topic.partitions} == {do.machine.timestamp_micros}


def test_stream_names_are_unique(do):
    do(create_stream("a"))
    do(create_stream("b"))
    assert do.status(create_stream("a")) == Status.STREAM_NAME_ALREADY_EXISTS
    assert do.status(update_stream(1, "a")) == Status.STREAM_NAME_ALREADY_EXISTS
    assert do.status(update_stream(1, "b")) == 0, "the present name is fine"
    assert do.status(update_stream(1, "c")) == 0
    assert do.status(create_stream("b")) == 0, "the old name is free"


def test_topic_names_are_unique_within_their_stream(do):
    do(create_stream("a"))
    do(create_stream("b"))
    do(create_topic(0, "t"))
    do(create_topic(0, "u"))
    assert do.status(create_topic(0, "t")) == Status.TOPIC_NAME_ALREADY_EXISTS
    assert do.status(create_topic(1, "t")) == 0
    assert do.status(update_topic(0, 1, "t")) == Status.TOPIC_NAME_ALREADY_EXISTS
    assert do.status(update_topic(0, 1, "u")) == 0, "the present name is fine"


@pytest.mark.parametrize("name", ["", "n" * 256, "é" * 128])
def test_names_have_1_to_255_bytes(do, name):
    do(create_stream("s"))
    do(create_topic(0, "t"))
    assert do.status(create_stream(name)) == Status.INVALID_FORMAT
    assert do.status(update_stream(0, name)) == Status.INVALID_FORMAT
    assert do.status(create_topic(0, name)) == Status.INVALID_FORMAT
    assert do.status(update_topic(0, 0, name)) == Status.INVALID_FORMAT
    assert do.status(create_stream("é" * 127 + "n")) == 0


def test_what_does_not_exist_is_reported_stream_first(do):
    missing_stream = [
        update_stream(0, "s"),
        delete_stream(0),
        Command(purge_stream=PurgeStream(stream_id=0)),
        create_topic(0, "t"),
        update_topic(0, 0, "t"),
        delete_topic(0, 0),
        Command(purge_topic=PurgeTopic(stream_id=0, topic_id=0)),
        create_partitions(0, 0, 1),
        delete_partitions(0, 0, 1),
    ]
    for command in missing_stream:
        assert do.status(command) == Status.STREAM_ID_NOT_FOUND
    do(create_stream("s"))
    for command in missing_stream[4:]:
        assert do.status(command) == Status.TOPIC_ID_NOT_FOUND


def test_shard_3_streams_are_limited_to_4096(do):
    for number in range(4096):
        assert do.status(create_stream(f"s{number}")) == 0
    assert do.status(create_stream("one too many")) == Status.CANNOT_CREATE_STREAM
    do(delete_stream(17))
    assert do(create_stream("instead")).reply.stream.id == 17


def test_shard_3_topics_of_a_stream_are_limited_to_4096(do):
    do(create_stream("s"))
    do(create_stream("other"))
    for number in range(4096):
        assert do.status(create_topic(0, f"t{number}", partitions_count=0)) == 0
    assert do.status(create_topic(0, "one too many")) == Status.CANNOT_CREATE_TOPIC
    assert do.status(create_topic(1, "elsewhere")) == 0


def test_a_command_creates_at_most_1000_partitions(do):
    assert do.status(create_topic(9, "t", 1001)) == Status.TOO_MANY_PARTITIONS, "checked before the stream"
    do(create_stream("s"))
    assert do.status(create_topic(0, "t", 1000)) == 0
    assert do.status(create_topic(0, "none", 0)) == 0
    for count in (0, 1001):
        assert do.status(create_partitions(9, 0, count)) == Status.TOO_MANY_PARTITIONS
    assert do.status(create_partitions(0, 0, 1000)) == 0
    assert [partition.id for partition in do.topic(0, 0).partitions] == list(range(2000))


def test_shard_3_partitions_of_a_topic_are_limited(do, monkeypatch):
    monkeypatch.setattr("headrace_metadata.state_machine.streams.partitions.PARTITIONS_PER_TOPIC_MAX", 1500)
    assert limits.PARTITIONS_PER_TOPIC_MAX == 1_048_576
    do(create_stream("s"))
    do(create_topic(0, "t", 1000))
    assert do.status(create_partitions(0, 0, 501)) == Status.TOO_MANY_PARTITIONS
    assert do.status(create_partitions(0, 0, 500)) == 0


def test_partitions_are_deleted_from_the_top(do):
    do(create_stream("s"))
    do(create_topic(0, "t", 5))
    assert do.status(delete_partitions(0, 0, 0)) == Status.TOO_MANY_PARTITIONS
    assert do.status(delete_partitions(9, 0, 0)) == Status.TOO_MANY_PARTITIONS, "checked before the stream"
    assert do.status(delete_partitions(0, 0, 6)) == Status.INVALID_PARTITIONS_COUNT
    assert do.status(delete_partitions(0, 0, 2)) == 0
    assert [partition.id for partition in do.topic(0, 0).partitions] == [0, 1, 2]
    assert do.status(delete_partitions(0, 0, 3)) == 0
    assert len(do.topic(0, 0).partitions) == 0


def test_purging_raises_the_epoch(do):
    do(create_stream("s"))
    do(create_topic(0, "t"))
    do(create_topic(0, "u"))
    do(Command(purge_topic=PurgeTopic(stream_id=0, topic_id=1)))
    assert [topic.purge_epoch for topic in do.machine.catalog().topics] == [0, 1]
    do(Command(purge_stream=PurgeStream(stream_id=0)))
    assert [topic.purge_epoch for topic in do.machine.catalog().topics] == [1, 2]


def test_purging_a_stream_without_topics_changes_nothing(do):
    do(create_stream("s"))
    applied = do(Command(purge_stream=PurgeStream(stream_id=0)))
    assert applied.reply.status == 0
    assert applied.update is None


def test_updating_a_topic_replaces_its_settings_and_nothing_else(do):
    do(create_stream("s"))
    do(create_topic(0, "t", 3, durability=DURABILITY_FSYNC))
    before = do.topic(0, 0)
    new = {"compression": COMPRESSION_ALGORITHM_GZIP, "message_expiry_micros": 5, "max_size_bytes": 6}
    do(update_topic(0, 0, "renamed", replication_factor=3, **new))
    after = do.topic(0, 0)
    assert (after.name, after.compression, after.message_expiry_micros) == ("renamed", COMPRESSION_ALGORITHM_GZIP, 5)
    assert (after.max_size_bytes, after.replication_factor) == (6, 3)
    assert list(after.partitions) == list(before.partitions)
    assert (after.incarnation, after.durability) == (before.incarnation, DURABILITY_FSYNC)


@pytest.mark.parametrize(
    "settings",
    [
        {"compression": 0},
        {"compression": 3},
        {"message_expiry_micros": 0},
        {"max_size_bytes": 0},
        {"replication_factor": 0},
        {"replication_factor": 256},
    ],
)
def test_settings_are_resolved_and_known(do, settings):
    do(create_stream("s"))
    do(create_topic(0, "t"))
    assert do.status(create_topic(0, "u", **settings)) == Status.INVALID_COMMAND
    assert do.status(update_topic(0, 0, "t", **settings)) == Status.INVALID_COMMAND
    assert do.status(create_topic(0, "u", durability=9)) == Status.INVALID_COMMAND
    assert do.topic(0, 0).compression == COMPRESSION_ALGORITHM_NONE
    assert do.topic(0, 0).message_expiry_micros == NEVER


def test_deleting_a_stream_removes_the_rights_on_it(do):
    do(create_stream("s"))
    do(create_user("root"))
    do(create_user("ann", permissions=permissions_for({0: [0, 4], 1: [0]})))
    do(create_user("bob", permissions=permissions_for({1: []})))
    applied = do(delete_stream(0))
    assert [delta.WhichOneof("change") for delta in applied.update.deltas] == ["stream_deleted", "user_put"]
    root, ann, bob = do.machine.catalog().users
    assert not root.HasField("permissions")
    assert [(s.stream_id, len(s.topics)) for s in ann.permissions.streams] == [(1, 1)]
    assert [stream.stream_id for stream in bob.permissions.streams] == [1]


def test_deleting_a_topic_removes_the_rights_on_it_and_keeps_those_on_its_stream(do):
    do(create_stream("s"))
    do(create_topic(0, "t"))
    do(create_user("root"))
    do(create_user("ann", permissions=permissions_for({0: [0, 4], 1: [0]})))
    applied = do(delete_topic(0, 0))
    assert [delta.WhichOneof("change") for delta in applied.update.deltas] == ["topic_deleted", "user_put"]
    ann = do.machine.catalog().users[1]
    assert [
        (stream.stream_id, stream.send_messages, [topic.topic_id for topic in stream.topics])
        for stream in ann.permissions.streams
    ] == [(0, True, [4]), (1, True, [0])]
