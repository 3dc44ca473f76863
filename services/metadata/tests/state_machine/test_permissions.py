"""Stored and published permissions are equal to the granted ones (CTL-9)."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from metadata_commands import create_stream, create_topic, create_user, delete_stream, delete_topic
from projection import Projection
from tests.property_runs import bounded
from tests.rights import ACTIONS, GLOBAL_RIGHTS, STREAM_RIGHTS, TOPIC_RIGHTS, Rights

from headrace_metadata.state_machine import StateMachine
from headrace_proto.catalog.v1 import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from headrace_proto.metadata.v1 import Command, DeleteUser, StateSnapshot, UpdatePermissions, UpdateUser

PLACES = range(3)
users = st.integers(1, 3)
places = st.sampled_from(PLACES)


def some_of(rights):
    return st.lists(st.sampled_from(rights), unique=True, max_size=2)


# As received: in any order, and possibly with duplicates, of which the last counts.
topics = st.lists(st.tuples(places, some_of(TOPIC_RIGHTS)), max_size=4)
streams = st.lists(st.tuples(places, some_of(STREAM_RIGHTS), topics), max_size=4)
grants = st.none() | st.tuples(some_of(GLOBAL_RIGHTS), streams)


def record_of(grant):
    if grant is None:
        return None
    everywhere, streams = grant
    record = Permissions(
        streams=[
            StreamPermissions(
                stream_id=stream,
                topics=[TopicPermissions(topic_id=topic, **dict.fromkeys(rights, True)) for topic, rights in topics],
                **dict.fromkeys(rights, True),
            )
            for stream, rights, topics in streams
        ]
    )
    getattr(record, "global").CopyFrom(GlobalPermissions(**dict.fromkeys(everywhere, True)))
    return record


def granted(grant):
    held = Rights(grant[0] if grant is not None else ())
    for stream, rights, topics in grant[1] if grant is not None else ():
        held.forget_stream(stream)
        held.streams[stream] = set(rights)
        held.topics |= {(stream, topic): set(rights) for topic, rights in topics}
    return held


def read_back(user):
    """Return the permissions in a record of the catalog, which must name each object only once."""

    def set_in(record, known):
        return {right for right in known if getattr(record, right)}

    record = user.permissions
    found = Rights(set_in(getattr(record, "global"), GLOBAL_RIGHTS))
    for stream in record.streams:
        assert stream.stream_id not in found.streams
        found.streams[stream.stream_id] = set_in(stream, STREAM_RIGHTS)
        for topic in stream.topics:
            assert (stream.stream_id, topic.topic_id) not in found.topics
            found.topics[stream.stream_id, topic.topic_id] = set_in(topic, TOPIC_RIGHTS)
    return found


def decisions(rights):
    return {
        (action, stream, topic)
        for action, granted_by in ACTIONS.items()
        for stream in PLACES
        for topic in PLACES
        if rights.allow(granted_by, stream, topic)
    }


class PermissionsUnderChange(RuleBasedStateMachine):
    @initialize(grant=grants)
    def begin(self, grant):
        self.machine = StateMachine()
        self.projection = Projection(self.machine.catalog())
        self.held = {}
        self.streams = {}
        self.propose(create_user("root"))
        for stream in PLACES[:2]:
            self.create_stream()
            for _ in PLACES[:2]:
                self.create_topic(stream)
        self.create_user(grant)

    def propose(self, command):
        machine = self.machine
        applied = machine.apply(machine.op + 1, machine.timestamp_micros + 1, command)
        if applied.update is not None:
            self.projection.apply(applied.update)
        return applied.reply

    @rule(grant=grants)
    def create_user(self, grant):
        user = self.propose(create_user(f"user {self.machine.op}", permissions=record_of(grant))).user
        self.held[user.id] = granted(grant)

    @rule(user=users, grant=grants)
    def grant(self, user, grant):
        update = UpdatePermissions(user_id=user, permissions=record_of(grant))
        status = self.propose(Command(update_permissions=update)).status
        assert (status == 0) == (user in self.held)
        if user in self.held:
            self.held[user] = granted(grant)

    @rule(user=users)
    def rename_user(self, user):
        self.propose(Command(update_user=UpdateUser(user_id=user, username=f"user {self.machine.op}")))

    @rule(user=users)
    def delete_user(self, user):
        self.propose(Command(delete_user=DeleteUser(user_id=user)))
        self.held.pop(user, None)

    @rule()
    def create_stream(self):
        stream = self.propose(create_stream(f"stream {self.machine.op}")).stream
        self.streams[stream.id] = set()

    @rule(stream=places)
    def delete_stream(self, stream):
        if self.propose(delete_stream(stream)).status == 0:
            del self.streams[stream]
            for rights in self.held.values():
                rights.forget_stream(stream)

    @rule(stream=places)
    def create_topic(self, stream):
        reply = self.propose(create_topic(stream, f"topic {self.machine.op}"))
        if reply.status == 0:
            self.streams[stream].add(reply.topic.id)

    @rule(stream=places, topic=places)
    def delete_topic(self, stream, topic):
        if self.propose(delete_topic(stream, topic)).status == 0:
            self.streams[stream].remove(topic)
            for rights in self.held.values():
                rights.forget_topic(stream, topic)

    @rule()
    def restart(self):
        contents = self.machine.snapshot().SerializeToString()
        self.machine = StateMachine.restore(StateSnapshot.FromString(contents))

    @invariant()
    def decisions_are_those_of_the_grants(self):
        for catalog in (self.machine.catalog(), self.projection.snapshot()):
            shown = {user.id: decisions(read_back(user)) for user in catalog.users if user.id != 0}
            assert shown == {user: decisions(rights) for user, rights in self.held.items()}


TestPermissionsUnderChange = PermissionsUnderChange.TestCase
TestPermissionsUnderChange.settings = bounded(examples=40, steps=40)
