"""Preconditions of commands: a command with a reused id has no effect (CTL-2)."""

import pytest
from metadata_commands import create_stream, create_topic, create_user, delete_stream, delete_topic
from metadata_driver import Driver

from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    Command,
    CreateConsumerGroup,
    CreatePartitions,
    DeleteConsumerGroup,
    DeleteStream,
    DeleteTopic,
    JoinConsumerGroup,
    PurgeTopic,
    UpdateStream,
)

GROUP = {"stream_id": 0, "topic_id": 0, "group_id": 0}


@pytest.fixture
def driver():
    it = Driver()
    it(create_stream("s"), create_topic(0, "t"), Command(create_consumer_group=CreateConsumerGroup(name="g")))
    return it


def catalog(driver):
    return driver.machine.catalog()


def test_a_stream_that_took_the_place_of_another_is_left_alone(driver):
    meant = catalog(driver).streams[0].incarnation
    driver(delete_stream(0), create_stream("another"))
    for operation in ({"delete_stream": DeleteStream()}, {"update_stream": UpdateStream(name="mine")}):
        assert driver.status(Command(stream_incarnation=meant, **operation)) == Status.STREAM_ID_NOT_FOUND
    assert [stream.name for stream in catalog(driver).streams] == ["another"]
    meant = catalog(driver).streams[0].incarnation
    assert driver.status(Command(stream_incarnation=meant, delete_stream=DeleteStream())) == Status.OK
    assert driver.status(Command(stream_incarnation=meant, delete_stream=DeleteStream())) == Status.STREAM_ID_NOT_FOUND


def test_a_topic_that_took_the_place_of_another_is_left_alone(driver):
    meant = catalog(driver).topics[0].incarnation
    driver(delete_topic(0, 0), create_topic(0, "another"))
    for operation in (
        {"delete_topic": DeleteTopic()},
        {"purge_topic": PurgeTopic()},
        {"create_partitions": CreatePartitions(partitions_count=1)},
        {"create_consumer_group": CreateConsumerGroup(name="g")},
    ):
        assert driver.status(Command(topic_incarnation=meant, **operation)) == Status.TOPIC_ID_NOT_FOUND
    driver(delete_stream(0))
    assert driver.status(Command(topic_incarnation=meant, purge_topic=PurgeTopic())) == Status.STREAM_ID_NOT_FOUND


def test_a_group_that_took_the_place_of_another_is_left_alone(driver):
    meant = catalog(driver).consumer_groups[0].key
    delete = DeleteConsumerGroup(**GROUP)
    driver(Command(delete_consumer_group=delete), Command(create_consumer_group=CreateConsumerGroup(name="another")))
    join = JoinConsumerGroup(**GROUP, client_id=1)
    for operation in ({"join_consumer_group": join}, {"delete_consumer_group": delete}):
        assert driver.status(Command(group_key=meant, **operation)) == Status.CONSUMER_GROUP_ID_NOT_FOUND
    assert driver.status(Command(group_key=meant + 1, **operation)) == Status.OK


def test_what_is_meant_says_nothing_about_other_things(driver):
    """A precondition about an unrelated object is ignored, so that a careless proposer stops no replica."""
    for meant in ({"stream_incarnation": 99}, {"topic_incarnation": 99}, {"group_key": 99}):
        user = create_user(f"user of {next(iter(meant))}")
        user.MergeFrom(Command(**meant))
        assert driver.status(user) == Status.OK
