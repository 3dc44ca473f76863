"""The state machine compared with a plain model, and with itself: replayed, restored, forked (CTL-2, CTL-9).

The model is written from the rules, not from the code: dictionaries that are changed in place, and for every command
the list of possible errors in the documented order.
"""

import copy

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from metadata_commands import (
    create_partitions,
    create_stream,
    create_token,
    create_topic,
    create_user,
    delete_stream,
    delete_topic,
    permissions_for,
    update_topic,
)
from projection import Projection
from tests.property_runs import bounded

from headrace_metadata.state_machine import StateMachine
from headrace_proto.catalog.v1 import USER_STATUS_ACTIVE, Quota
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    ChangePassword,
    Command,
    DeleteAccessToken,
    DeleteExpiredAccessTokens,
    DeletePartitions,
    DeleteUser,
    PurgeStream,
    PurgeTopic,
    RevokeLogin,
    SetTopicQuota,
    SetUserQuota,
    StateSnapshot,
    UpdatePermissions,
    UpdateStream,
    UpdateUser,
)

# Few values, so that commands often refer to each other's results.
ids = st.integers(0, 4)
names = st.sampled_from(["", "one", "two", "three", "four"])
# Sent, read, held, connections.
quotas = st.tuples(*[st.sampled_from([0, 0, 1024, 2**32 - 1, 1023])] * 2, *[st.sampled_from([0, 0, 0, 5])] * 2)
rights = st.none() | st.dictionaries(ids, st.lists(ids, unique=True, max_size=2), max_size=3)


class Model:
    def __init__(self):
        self.streams = {}  # id -> {"name", "topics": id -> {"name", "partitions", "epoch"}}
        self.users = {}  # id -> {"name", "hash", "rights", "tokens": name -> expiry}
        self.next_user_id = 0
        self.revoked = {}  # digest -> expiry

    def forget_logins(self, now):
        self.revoked = {digest: at for digest, at in self.revoked.items() if at > now}


def smallest_unused(used):
    return next(number for number in range(len(used) + 1) if number not in used)


NO_QUOTA = (0, 0, 0, 0)
# Time between commands.
STEP_MICROS = 10


class StateMachineAgainstModel(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.model = Model()
        self.machine = StateMachine()
        self.log = []
        self.projection = Projection(self.machine.catalog())

    def run(self, command, *refusals, then):
        """Apply a command; expect the first of ``refusals`` (status, whether it holds), or else run ``then``."""
        op, timestamp = self.machine.op + 1, self.machine.timestamp_micros + STEP_MICROS
        applied = self.machine.apply(op, timestamp, command)
        self.log.append((op, timestamp, command, applied))
        expected = next((code for code, holds in refusals if holds), 0)
        assert applied.reply.status == expected
        if expected == 0:
            then(applied.reply)
        else:
            assert applied.update is None
        if applied.update is not None:
            self.projection.apply(applied.update)

    def stream_missing(self, stream_id):
        return (Status.STREAM_ID_NOT_FOUND, stream_id not in self.model.streams)

    def topic_missing(self, stream_id, topic_id):
        return (Status.TOPIC_ID_NOT_FOUND, topic_id not in self.topics(stream_id))

    def topics(self, stream_id):
        return self.model.streams.get(stream_id, {"topics": {}})["topics"]

    def user_missing(self, user_id):
        return (Status.RESOURCE_NOT_FOUND, user_id not in self.model.users)

    @rule(name=names)
    def create_stream(self, name):
        def then(reply):
            stream_id = smallest_unused(self.model.streams)
            assert (reply.stream.id, reply.stream.name) == (stream_id, name)
            self.model.streams[stream_id] = {"name": name, "topics": {}}

        taken = any(stream["name"] == name for stream in self.model.streams.values())
        self.run(
            create_stream(name),
            (Status.INVALID_FORMAT, not name),
            (Status.STREAM_NAME_ALREADY_EXISTS, taken),
            then=then,
        )

    @rule(stream_id=ids, name=names)
    def rename_stream(self, stream_id, name):
        taken = any(other != stream_id and stream["name"] == name for other, stream in self.model.streams.items())
        self.run(
            Command(update_stream=UpdateStream(stream_id=stream_id, name=name)),
            (Status.INVALID_FORMAT, not name),
            self.stream_missing(stream_id),
            (Status.STREAM_NAME_ALREADY_EXISTS, taken),
            then=lambda _: self.model.streams[stream_id].update(name=name),
        )

    @rule(stream_id=ids)
    def delete_stream(self, stream_id):
        def then(_):
            del self.model.streams[stream_id]
            for user in self.model.users.values():
                (user["rights"] or {}).pop(stream_id, None)

        self.run(delete_stream(stream_id), self.stream_missing(stream_id), then=then)

    @rule(stream_id=ids)
    def purge_stream(self, stream_id):
        def then(_):
            for topic in self.topics(stream_id).values():
                topic["epoch"] += 1

        self.run(Command(purge_stream=PurgeStream(stream_id=stream_id)), self.stream_missing(stream_id), then=then)

    @rule(stream_id=ids, name=names, count=st.sampled_from([0, 1, 3, 1001]))
    def create_topic(self, stream_id, name, count):
        def then(reply):
            topic_id = smallest_unused(self.topics(stream_id))
            assert (reply.topic.stream_id, reply.topic.id, reply.topic.name) == (stream_id, topic_id, name)
            assert [partition.id for partition in reply.topic.partitions] == list(range(count))
            self.topics(stream_id)[topic_id] = {"name": name, "partitions": count, "epoch": 0, "quota": NO_QUOTA}

        self.run(
            create_topic(stream_id, name, count),
            (Status.TOO_MANY_PARTITIONS, count > 1000),
            (Status.INVALID_FORMAT, not name),
            self.stream_missing(stream_id),
            (Status.TOPIC_NAME_ALREADY_EXISTS, any(t["name"] == name for t in self.topics(stream_id).values())),
            then=then,
        )

    @rule(stream_id=ids, topic_id=ids, name=names)
    def update_topic(self, stream_id, topic_id, name):
        others = (topic for other, topic in self.topics(stream_id).items() if other != topic_id)
        self.run(
            update_topic(stream_id, topic_id, name),
            (Status.INVALID_FORMAT, not name),
            self.stream_missing(stream_id),
            self.topic_missing(stream_id, topic_id),
            (Status.TOPIC_NAME_ALREADY_EXISTS, any(topic["name"] == name for topic in others)),
            then=lambda _: self.topics(stream_id)[topic_id].update(name=name),
        )

    @rule(stream_id=ids, topic_id=ids)
    def delete_topic(self, stream_id, topic_id):
        def then(_):
            del self.topics(stream_id)[topic_id]
            for user in self.model.users.values():
                (user["rights"] or {}).get(stream_id, set()).discard(topic_id)

        self.run(
            delete_topic(stream_id, topic_id),
            self.stream_missing(stream_id),
            self.topic_missing(stream_id, topic_id),
            then=then,
        )

    @rule(stream_id=ids, topic_id=ids)
    def purge_topic(self, stream_id, topic_id):
        def then(_):
            self.topics(stream_id)[topic_id]["epoch"] += 1

        self.run(
            Command(purge_topic=PurgeTopic(stream_id=stream_id, topic_id=topic_id)),
            self.stream_missing(stream_id),
            self.topic_missing(stream_id, topic_id),
            then=then,
        )

    @rule(stream_id=ids, topic_id=ids, count=st.sampled_from([0, 1, 4, 1001]))
    def create_partitions(self, stream_id, topic_id, count):
        def then(_):
            self.topics(stream_id)[topic_id]["partitions"] += count

        self.run(
            create_partitions(stream_id, topic_id, count),
            (Status.TOO_MANY_PARTITIONS, not 1 <= count <= 1000),
            self.stream_missing(stream_id),
            self.topic_missing(stream_id, topic_id),
            then=then,
        )

    @rule(stream_id=ids, topic_id=ids, count=st.integers(0, 4))
    def delete_partitions(self, stream_id, topic_id, count):
        def then(_):
            self.topics(stream_id)[topic_id]["partitions"] -= count

        present = self.topics(stream_id).get(topic_id, {"partitions": 0})["partitions"]
        self.run(
            Command(delete_partitions=DeletePartitions(stream_id=stream_id, topic_id=topic_id, partitions_count=count)),
            (Status.TOO_MANY_PARTITIONS, count == 0),
            self.stream_missing(stream_id),
            self.topic_missing(stream_id, topic_id),
            (Status.INVALID_PARTITIONS_COUNT, count > present),
            then=then,
        )

    @rule(name=names, rights=rights)
    def create_user(self, name, rights):
        def then(reply):
            assert (reply.user.id, reply.user.username) == (self.model.next_user_id, name)
            self.model.users[self.model.next_user_id] = {
                "name": name,
                "hash": f"hash of {name}",
                "password_version": 1,
                "rights": as_sets(rights),
                "quota": NO_QUOTA,
                "tokens": {},
            }
            self.model.next_user_id += 1

        self.run(
            create_user(name, permissions=as_permissions(rights)),
            (Status.INVALID_USERNAME, len(name) < 3),
            (Status.USER_ALREADY_EXISTS, any(user["name"] == name for user in self.model.users.values())),
            then=then,
        )

    @rule(user_id=ids, name=names)
    def rename_user(self, user_id, name):
        taken = any(other != user_id and user["name"] == name for other, user in self.model.users.items())
        self.run(
            Command(update_user=UpdateUser(user_id=user_id, username=name)),
            (Status.INVALID_USERNAME, len(name) < 3),
            self.user_missing(user_id),
            (Status.USER_ALREADY_EXISTS, taken),
            then=lambda _: self.model.users[user_id].update(name=name),
        )

    @rule(user_id=ids)
    def delete_user(self, user_id):
        self.run(
            Command(delete_user=DeleteUser(user_id=user_id)),
            self.user_missing(user_id),
            (Status.CANNOT_DELETE_USER, user_id == 0),
            then=lambda _: self.model.users.pop(user_id),
        )

    @rule(user_id=ids, rights=rights)
    def update_permissions(self, user_id, rights):
        self.run(
            Command(update_permissions=UpdatePermissions(user_id=user_id, permissions=as_permissions(rights))),
            self.user_missing(user_id),
            (Status.CANNOT_CHANGE_PERMISSIONS, user_id == 0),
            then=lambda _: self.model.users[user_id].update(rights=as_sets(rights)),
        )

    @rule(user_id=ids, quota=quotas)
    def set_user_quota(self, user_id, quota):
        self.run(
            Command(set_user_quota=SetUserQuota(user_id=user_id, quota=as_quota(quota))),
            (Status.INVALID_COMMAND, 1023 in quota or quota[2] > 0),
            self.user_missing(user_id),
            (Status.CANNOT_CHANGE_PERMISSIONS, user_id == 0),
            then=lambda _: self.model.users[user_id].update(quota=quota),
        )

    @rule(stream_id=ids, topic_id=ids, quota=quotas)
    def set_topic_quota(self, stream_id, topic_id, quota):
        self.run(
            Command(set_topic_quota=SetTopicQuota(stream_id=stream_id, topic_id=topic_id, quota=as_quota(quota))),
            (Status.INVALID_COMMAND, 1023 in quota or quota[3] > 0),
            self.stream_missing(stream_id),
            self.topic_missing(stream_id, topic_id),
            then=lambda _: self.topics(stream_id)[topic_id].update(quota=quota),
        )

    @rule(user_id=ids, password=names)
    def change_password(self, user_id, password):
        self.run(
            Command(change_password=ChangePassword(user_id=user_id, password_hash=password)),
            self.user_missing(user_id),
            then=lambda _: self.model.users[user_id].update(
                hash=password, password_version=self.model.users[user_id]["password_version"] + 1
            ),
        )

    @rule(user_id=ids, name=names, lifetime=st.sampled_from([0, 1, 35, 1_000_000]))
    def create_token(self, user_id, name, lifetime):
        expires_at = lifetime and self.machine.timestamp_micros + lifetime
        tokens = self.model.users.get(user_id, {"tokens": {}})["tokens"]
        self.run(
            create_token(user_id, name, expires_at_micros=expires_at, tokens_per_user_max=2),
            (Status.INVALID_PERSONAL_ACCESS_TOKEN_NAME, len(name) < 3),
            self.user_missing(user_id),
            (Status.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED, len(tokens) >= 2),
            (Status.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS, name in tokens),
            then=lambda _: tokens.update({name: expires_at}),
        )

    @rule(user_id=ids, name=names)
    def delete_token(self, user_id, name):
        tokens = self.model.users.get(user_id, {"tokens": {}})["tokens"]
        self.run(
            Command(actor_user_id=user_id, delete_access_token=DeleteAccessToken(name=name)),
            (Status.RESOURCE_NOT_FOUND, name not in tokens),
            then=lambda _: tokens.pop(name),
        )

    @rule()
    def delete_expired_tokens(self):
        def then(_):
            now = self.machine.timestamp_micros
            for user in self.model.users.values():
                user["tokens"] = {name: at for name, at in user["tokens"].items() if at == 0 or at > now}
            self.model.forget_logins(now)

        self.run(Command(delete_expired_access_tokens=DeleteExpiredAccessTokens()), then=then)

    @rule(
        digest=st.sampled_from([b"", b"a" * 16, b"b" * 16, b"c" * 16]),
        lifetime=st.sampled_from([0, 5, 35, 1000]),
        once=st.booleans(),
    )
    def revoke_login(self, digest, lifetime, once):
        expires_at = self.machine.timestamp_micros + lifetime

        def then(_):
            now = self.machine.timestamp_micros
            self.model.forget_logins(now)
            if expires_at > now:
                self.model.revoked.setdefault(digest, expires_at)

        self.run(
            Command(revoke_login=RevokeLogin(digest=digest, expires_at_micros=expires_at, once=once)),
            (Status.INVALID_COMMAND, len(digest) != 16),
            (Status.INVALID_ACCESS_TOKEN, once and (lifetime <= STEP_MICROS or digest in self.model.revoked)),
            then=then,
        )

    @rule()
    def restore(self):
        """Continue from an encoded snapshot, as after a restart."""
        encoded = encode(self.machine)
        self.machine = StateMachine.restore(StateSnapshot.FromString(encoded))
        assert encode(self.machine) == encoded

    @rule()
    def fork(self):
        """Continue with a fork; changes of the fork do not affect the original."""
        original, before = self.machine, encode(self.machine)
        self.machine = original.fork()
        self.create_user("fork", rights={0: [0]})
        assert encode(original) == before

    @invariant()
    def the_catalog_is_that_of_the_model(self):
        assert view_of(self.machine.catalog()) == expected_view(self.model)
        accounts = self.machine.state.accounts
        assert {user_id: accounts.password_hash(user_id) for user_id in self.model.users} == {
            user_id: user["hash"] for user_id, user in self.model.users.items()
        }

    @invariant()
    def a_follower_of_the_updates_sees_the_same(self):
        assert view_of(self.projection.snapshot()) == view_of(self.machine.catalog())
        assert self.projection.version == self.machine.version

    def teardown(self):
        """Another machine with the same commands gives the same answers and ends in the same bytes."""
        other = StateMachine()
        for op, timestamp, command, applied in self.log:
            again = other.apply(op, timestamp, Command.FromString(command.SerializeToString()))
            assert again == applied
        assert encode(other) == encode(self.machine)


def encode(machine):
    return machine.snapshot().SerializeToString(deterministic=True)


def as_permissions(rights):
    return None if rights is None else permissions_for(rights)


def as_quota(values):
    return Quota(**dict(zip(Quota.DESCRIPTOR.fields_by_name, values, strict=True)))


def quota_of(record):
    """Return the quota of a record as values; None for one without limits that is not absent."""
    values = tuple(getattr(record.quota, name) for name in Quota.DESCRIPTOR.fields_by_name)
    return values if record.HasField("quota") == any(values) else None


def as_sets(rights):
    return None if rights is None else {stream_id: set(topics) for stream_id, topics in rights.items()}


def view_of(catalog):
    """Return a catalog as plain values; as lists, because the order counts."""
    return {
        "streams": [(stream.id, stream.name) for stream in catalog.streams],
        "topics": [
            (
                topic.stream_id,
                topic.id,
                topic.name,
                [p.id for p in topic.partitions],
                topic.purge_epoch,
                quota_of(topic),
            )
            for topic in catalog.topics
        ],
        "users": [
            (
                user.id,
                user.username,
                user.status,
                [(s.stream_id, [t.topic_id for t in s.topics]) for s in user.permissions.streams]
                if user.HasField("permissions")
                else None,
                user.password_version,
                quota_of(user),
            )
            for user in catalog.users
        ],
        "tokens": [(token.user_id, token.name, token.expires_at_micros) for token in catalog.access_tokens],
        "revoked": [(login.digest, login.expires_at_micros) for login in catalog.revoked_logins],
    }


def expected_view(model):
    model = copy.deepcopy(model)
    return {
        "streams": [(stream_id, stream["name"]) for stream_id, stream in sorted(model.streams.items())],
        "topics": [
            (stream_id, topic_id, topic["name"], list(range(topic["partitions"])), topic["epoch"], topic["quota"])
            for stream_id, stream in sorted(model.streams.items())
            for topic_id, topic in sorted(stream["topics"].items())
        ],
        "users": [
            (
                user_id,
                user["name"],
                USER_STATUS_ACTIVE,
                None
                if user["rights"] is None
                else [(stream_id, sorted(topics)) for stream_id, topics in sorted(user["rights"].items())],
                user["password_version"],
                user["quota"],
            )
            for user_id, user in sorted(model.users.items())
        ],
        "tokens": [
            (user_id, name, expires_at)
            for user_id, user in sorted(model.users.items())
            for name, expires_at in sorted(user["tokens"].items())
        ],
        "revoked": sorted(model.revoked.items()),
    }


TestStateMachineAgainstModel = StateMachineAgainstModel.TestCase
TestStateMachineAgainstModel.settings = bounded(examples=150, steps=60)
