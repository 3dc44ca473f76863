"""Rules for quotas of users and topics (CTL-13), each with the status of its refusal."""

import pytest
from metadata_commands import (
    create_partitions,
    create_stream,
    create_topic,
    create_user,
    delete_topic,
    permissions_for,
    update_topic,
)
from metadata_driver import Driver

from headrace_metadata.state_machine import StateMachine
from headrace_proto.catalog.v1 import Quota
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    ChangePassword,
    Command,
    PurgeTopic,
    SetTopicQuota,
    SetUserQuota,
    StateSnapshot,
    UpdatePermissions,
    UpdateUser,
)

OF_USER = Quota(sent_bytes_per_second=1024, read_bytes_per_second=2**64 - 1, connections=3)
OF_TOPIC = Quota(sent_bytes_per_second=2048, read_bytes_per_second=4096, held_bytes=1)


class Quotas(Driver):
    """A machine with root, a user 1 and a topic."""

    def __init__(self):
        super().__init__()
        self(create_user("root"), create_user("ann"), create_stream("s"), create_topic(0, "t"))

    @property
    def user(self):
        return self.machine.catalog().users[1]

    @property
    def topic(self):
        return self.machine.catalog().topics[0]


@pytest.fixture
def do():
    return Quotas()


def of_user(quota=None, user_id=1):
    return Command(set_user_quota=SetUserQuota(user_id=user_id, quota=quota))


def of_topic(quota=None, stream_id=0, topic_id=0, **meant):
    return Command(set_topic_quota=SetTopicQuota(stream_id=stream_id, topic_id=topic_id, quota=quota), **meant)


def test_a_quota_is_published_with_its_user_and_its_topic(do):
    assert [delta.user_put.quota for delta in do(of_user(OF_USER)).update.deltas] == [OF_USER]
    assert [delta.topic_put.quota for delta in do(of_topic(OF_TOPIC)).update.deltas] == [OF_TOPIC]
    assert (do.user.quota, do.topic.quota) == (OF_USER, OF_TOPIC)


def test_a_quota_is_replaced_as_a_whole_and_removed(do):
    for command in (of_user, of_topic):
        do(command(Quota(sent_bytes_per_second=5000)))
        do(command(Quota(read_bytes_per_second=6000)))
    assert do.user.quota == do.topic.quota == Quota(read_bytes_per_second=6000)
    for removed in (None, Quota()):
        for command in (of_user, of_topic):
            do(command(Quota(sent_bytes_per_second=5000)))
            assert do.status(command(removed)) == 0
        assert not do.user.HasField("quota")
        assert not do.topic.HasField("quota")


def test_the_same_quota_again_changes_nothing(do):
    for command, quota in ((of_user, OF_USER), (of_topic, OF_TOPIC)):
        assert do(command()).update is None, "there was none"
        do(command(quota))
        assert do(command(quota)).update is None


def test_a_quota_stays_with_every_other_change_and_ends_with_its_topic(do):
    do(of_user(OF_USER))
    do(of_topic(OF_TOPIC))
    for command in (
        Command(update_user=UpdateUser(user_id=1, username="anna")),
        Command(update_permissions=UpdatePermissions(user_id=1, permissions=permissions_for({0: [0]}))),
        Command(update_permissions=UpdatePermissions(user_id=1)),
        Command(change_password=ChangePassword(user_id=1, password_hash="new")),
        update_topic(0, 0, "renamed"),
        create_partitions(0, 0, 2),
        Command(purge_topic=PurgeTopic(stream_id=0, topic_id=0)),
    ):
        assert do.status(command) == 0
        assert (do.user.quota, do.topic.quota) == (OF_USER, OF_TOPIC)
    do(delete_topic(0, 0))
    do(create_topic(0, "next"))
    assert not do.topic.HasField("quota"), "the id is that of another topic"


def test_quotas_survive_a_snapshot(do):
    do(of_user(OF_USER))
    do(of_topic(OF_TOPIC))
    encoded = do.machine.snapshot().SerializeToString(deterministic=True)
    do.machine = StateMachine.restore(StateSnapshot.FromString(encoded))
    assert (do.user.quota, do.topic.quota) == (OF_USER, OF_TOPIC)
    assert do.machine.snapshot().SerializeToString(deterministic=True) == encoded


@pytest.mark.parametrize("rate", ["sent_bytes_per_second", "read_bytes_per_second"])
def test_a_rate_is_at_least_a_kibibyte(do, rate):
    for command in (of_user, of_topic):
        assert do.status(command(Quota(**{rate: 1}))) == Status.INVALID_COMMAND
        assert do.status(command(Quota(**{rate: 1023}))) == Status.INVALID_COMMAND
        assert do.status(command(Quota(**{rate: 1024}))) == 0


def test_a_user_holds_no_bytes_and_a_topic_has_no_connections(do):
    assert do.status(of_user(Quota(held_bytes=1))) == Status.INVALID_COMMAND
    assert do.status(of_topic(Quota(connections=1))) == Status.INVALID_COMMAND


def test_root_has_no_quota(do):
    assert do.status(of_user(OF_USER, user_id=0)) == Status.CANNOT_CHANGE_PERMISSIONS
    assert do.status(of_user(user_id=0)) == Status.CANNOT_CHANGE_PERMISSIONS


def test_a_quota_needs_its_user_or_the_topic_that_was_meant(do):
    assert do.status(of_user(OF_USER, user_id=9)) == Status.RESOURCE_NOT_FOUND
    assert do.status(of_topic(OF_TOPIC, stream_id=9)) == Status.STREAM_ID_NOT_FOUND
    assert do.status(of_topic(OF_TOPIC, topic_id=9)) == Status.TOPIC_ID_NOT_FOUND
    incarnation = do.topic.incarnation
    assert do.status(of_topic(OF_TOPIC, topic_incarnation=incarnation + 1)) == Status.TOPIC_ID_NOT_FOUND
    assert do.status(of_topic(OF_TOPIC, topic_incarnation=incarnation)) == 0
