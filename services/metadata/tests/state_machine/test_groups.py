"""Consumer groups: each partition has one owner, and has at most one move in progress (CTL-8)."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from metadata_commands import create_stream, create_topic, create_user, delete_stream, delete_topic
from tests.property_runs import bounded

from headrace_metadata.state_machine import StateMachine, is_partition_awaited, is_pulse_due
from headrace_metadata.state_machine.groups import groups
from headrace_metadata.state_machine.groups.assignment import Assignment, PendingRevocation
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    Command,
    CompletedRevocation,
    CompleteRevocation,
    CreateConsumerGroup,
    CreatePartitions,
    DeleteConsumerGroup,
    DeletePartitions,
    DeleteUser,
    ForgetClient,
    Gateway,
    GatewayHeartbeat,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    Pulse,
    ReplaceGateway,
    StateSnapshot,
)

REVOCATION_MICROS = 30_000
GATEWAY_MICROS = 20_000
HERE, THERE = 100, 200
GATEWAYS = {HERE: "here", 101: "here", THERE: "there"}


class Cluster:
    """A state machine with a clock controlled by the test."""

    def __init__(self):
        self.machine = StateMachine()
        self.now = 1_000_000
        self.log = []

    def run(self, status=Status.OK, *, actor=0, **operation):
        return self.apply(Command(actor_user_id=actor, **operation), status)

    def apply(self, command, status=Status.OK):
        self.now += 1
        applied = self.machine.apply(self.machine.op + 1, self.now, command)
        self.log.append((self.now, command, applied))
        assert applied.reply.status == status
        return applied

    def create(self, name="g", status=Status.OK, *, actor=0, **fields):
        command = CreateConsumerGroup(
            stream_id=0, topic_id=0, name=name, revocation_timeout_micros=REVOCATION_MICROS, **fields
        )
        return self.run(status, actor=actor, create_consumer_group=command)

    def join(self, client, *, gateway=HERE, group=0, status=Status.OK, actor=0):
        reported = Gateway(id=gateway, name=GATEWAYS[gateway], timeout_micros=GATEWAY_MICROS)
        command = JoinConsumerGroup(stream_id=0, topic_id=0, group_id=group, gateway=reported, client_id=client)
        return self.run(status, actor=actor, join_consumer_group=command)

    def leave(self, client, *, gateway=HERE, group=0, status=Status.OK):
        command = LeaveConsumerGroup(stream_id=0, topic_id=0, group_id=group, gateway_id=gateway, client_id=client)
        return self.run(status, leave_consumer_group=command)

    def complete(self, *completed, group=0, key=None):
        """Report completed partitions with the incarnations of their revocations."""
        command = CompleteRevocation(
            stream_id=0,
            topic_id=0,
            group_id=group,
            group_key=self.group(group).key if key is None else key,
            revocations=(
                CompletedRevocation(partition_id=partition, incarnation=which) for partition, which in completed
            ),
        )
        return self.run(complete_revocation=command)

    def group(self, group=0):
        return self.machine.state.groups.find_group((0, 0, group))

    def owners(self, group=0):
        """Return the client that owns each partition."""
        return {partition: member.client_id for member in self.group(group).members for partition in member.partitions}

    def revocations(self, group=0):
        """Return for each revoked partition its two clients and the revocation."""
        members = self.group(group).members
        clients = {member.id: member.client_id for member in members}
        return {
            revocation.partition_id: (member.client_id, clients[revocation.to_member_id], revocation)
            for member in members
            for revocation in member.revocations
        }

    def complete_all(self, group=0):
        while moving := self.revocations(group):
            completed = ((partition, revocation.incarnation) for partition, (_, _, revocation) in moving.items())
            self.complete(*completed, group=group)


def cluster(partitions):
    """Return a topic with one group without members."""
    made = Cluster()
    made.apply(create_stream("s"))
    made.apply(create_topic(0, "t", partitions))
    made.create()
    return made


def test_a_topic_has_only_so_many_groups(monkeypatch):
    monkeypatch.setattr(groups, "GROUPS_PER_TOPIC_MAX", 2)
    made = cluster(1)
    made.create("second")
    made.create("third", status=Status.TOO_MANY_CONSUMER_GROUPS)
    made.run(delete_consumer_group=DeleteConsumerGroup(stream_id=0, topic_id=0, group_id=0))
    made.create("third")


def test_a_user_has_half_of_the_groups_of_a_topic(monkeypatch):
    monkeypatch.setattr(groups, "GROUPS_PER_TOPIC_MAX", 6)
    made = cluster(1)
    for number in range(3):
        made.create(f"ann's {number}", actor=0, is_owned=True)
    made.create("ann's 3", status=Status.TOO_MANY_CONSUMER_GROUPS, actor=0, is_owned=True)
    made.create("bob's", actor=7, is_owned=True)
    made.run(delete_consumer_group=DeleteConsumerGroup(stream_id=0, topic_id=0, group_id=1))
    made.create("ann's 3", actor=0, is_owned=True)


def test_a_group_belongs_to_the_user_who_created_it_for_good():
    """Changes of its members keep that; groups of earlier gateways belong to no user."""
    made = cluster(2)
    made.create("owned", actor=7, is_owned=True)
    made.join(1, group=1, actor=8)
    made.leave(1, group=1)
    made.run(create_partitions=CreatePartitions(stream_id=0, topic_id=0, partitions_count=1))
    again = StateMachine.restore(StateSnapshot.FromString(made.machine.snapshot().SerializeToString()))
    earlier, owned = again.catalog().consumer_groups
    assert (earlier.HasField("owner_user_id"), owned.owner_user_id) == (False, 7)


def test_the_first_member_gets_everything():
    group = cluster(3)
    group.join(1)
    assert group.owners() == {0: 1, 1: 1, 2: 1}
    assert group.revocations() == {}


def test_a_second_member_waits_for_its_half():
    group = cluster(5)
    group.join(1)
    group.join(2)
    assert set(group.owners().values()) == {1}
    assert {partition: move[:2] for partition, move in group.revocations().items()} == {3: (1, 2), 4: (1, 2)}
    assert is_partition_awaited(group.machine.state, HERE, 2)
    assert not is_partition_awaited(group.machine.state, HERE, 1)
    group.complete_all()
    assert group.owners() == {0: 1, 1: 1, 2: 1, 3: 2, 4: 2}


def test_joining_twice_changes_nothing():
    group = cluster(2)
    group.join(1)
    assert group.join(1).update is None


def test_a_partition_on_its_way_is_not_sent_elsewhere():
    group = cluster(4)
    group.join(1)
    group.join(2)
    before = group.revocations()
    group.join(3)
    assert before.items() <= group.revocations().items()
    assert group.revocations()[1][:2] == (1, 3)
    group.complete_all()
    assert sorted(group.owners().values()) == [1, 2, 2, 3]


def test_a_leaver_s_partitions_are_dealt_out_at_once():
    group = cluster(6)
    for client in (1, 2, 3):
        group.join(client)
    group.complete_all()
    before = group.owners()
    group.leave(1)
    after = group.owners()
    assert sorted(after.values()) == [2, 2, 2, 3, 3, 3]
    assert all(after[partition] == client for partition, client in before.items() if client != 1)
    assert group.revocations() == {}


def test_who_leaves_while_a_partition_moves():
    """A partition moves at once if its owner leaves, and stays if the next owner leaves."""
    group = cluster(2)
    group.join(1)
    group.join(2)
    group.leave(1)
    assert group.owners() == {0: 2, 1: 2}

    group = cluster(2)
    group.join(1)
    group.join(2)
    group.leave(2)
    assert group.owners() == {0: 1, 1: 1}
    assert group.revocations() == {}


def test_a_newcomer_gets_what_a_leaver_had_while_it_waits_for_more():
    """A promised partition may take until its deadline: a member with only promises is the first to get free
    partitions.
    """
    group = cluster(3)
    group.join(1)
    group.join(2)
    group.complete_all()
    group.join(3)
    assert group.owners() == {0: 1, 1: 1, 2: 2}
    assert group.revocations()[1][:2] == (1, 3)
    group.leave(2)
    assert group.owners() == {0: 1, 1: 1, 2: 3}
    group.complete_all()
    assert group.owners() == {0: 1, 1: 3, 2: 3}


def test_a_newcomer_gets_added_partitions_while_it_waits_for_others():
    group = cluster(6)
    group.join(1)
    group.join(2)
    assert set(group.revocations()) == {3, 4, 5}
    group.run(create_partitions=CreatePartitions(stream_id=0, topic_id=0, partitions_count=3))
    assert {partition for partition, client in group.owners().items() if client == 2} == {6, 7, 8}
    assert set(group.revocations()) == {3, 4, 5}, "what was dealt just now stays where it is"
    group.complete_all()
    assert sorted(group.owners().values()) == [1] * 4 + [2] * 5


@given(data=st.data(), members=st.integers(1, 4), partitions=st.integers(0, 12))
@bounded(examples=150)
def test_what_is_free_goes_to_those_that_hold_least(data, members, partitions):
    """All free partitions are assigned at once, balanced to within one, not counting partitions in revocation."""
    ids = list(range(members))
    owners = data.draw(st.lists(st.sampled_from([None, *ids]), min_size=partitions, max_size=partitions))
    owned = [partition for partition, owner in enumerate(owners) if owner is not None]
    moving = data.draw(st.sets(st.sampled_from(owned))) if owned and members > 1 else set()
    revocations = {
        partition: PendingRevocation((owners[partition] + data.draw(st.integers(1, members - 1))) % members, 1, 1)
        for partition in sorted(moving)
    }
    assignment = Assignment(ids, list(owners), dict(revocations))
    assignment.balance(incarnation=2, deadline_micros=2)
    held = Counter(dict.fromkeys(ids, 0))
    held.update(owner for partition, owner in enumerate(assignment.owners) if partition not in revocations)
    for partition, (before, after) in enumerate(zip(owners, assignment.owners, strict=True)):
        if before is None:
            assert held[after] <= min(held.values()) + 1
            assert partition not in assignment.revocations
        else:
            assert after == before
    assert revocations.items() <= assignment.revocations.items()


def test_reports_of_other_revocations_change_nothing():
    """A report may be late: for a revocation that has ended, or a group whose id was reused."""
    group = cluster(2)
    group.join(1)
    group.join(2)
    revocation = group.revocations()[1][2].incarnation
    assert group.complete((1, revocation + 1)).update is None
    assert group.complete((0, revocation)).update is None
    assert group.complete((1, revocation), key=99).update is None
    assert group.complete((1, revocation)).update is not None
    assert group.complete((1, revocation)).update is None
    group.run(delete_consumer_group=DeleteConsumerGroup(stream_id=0, topic_id=0, group_id=0))
    assert group.complete((1, revocation), key=0).update is None


def test_revocations_end_at_their_deadline_by_the_time_in_the_operation():
    group = cluster(2)
    group.join(1)
    group.join(2)
    deadline = group.revocations()[1][2].deadline_micros
    assert deadline == group.now + REVOCATION_MICROS
    group.run(gateway_heartbeat=GatewayHeartbeat(gateway_id=HERE))
    group.now = deadline - GATEWAY_MICROS + 1
    group.run(gateway_heartbeat=GatewayHeartbeat(gateway_id=HERE))
    group.now = deadline - 2
    assert not is_pulse_due(group.machine.state, deadline - 1)
    assert group.run(pulse=Pulse()).update is None
    assert is_pulse_due(group.machine.state, deadline)
    group.run(pulse=Pulse())
    assert group.owners() == {0: 1, 1: 2}


def test_a_timeout_beyond_the_end_of_time_is_no_deadline():
    """The sum would overflow its field, and every replica would stop at the same command."""
    group = cluster(0)
    group.apply(create_topic(0, "u", 2))
    command = CreateConsumerGroup(stream_id=0, topic_id=1, name="g", revocation_timeout_micros=2**64 - 1)
    group.run(create_consumer_group=command)
    for client in (1, 2):
        reported = Gateway(id=HERE, name="here", timeout_micros=2**64 - 1)
        join = JoinConsumerGroup(stream_id=0, topic_id=1, group_id=0, gateway=reported, client_id=client)
        group.run(join_consumer_group=join)
    first, _ = group.machine.state.groups.find_group((0, 1, 0)).members
    assert [revocation.deadline_micros for revocation in first.revocations] == [2**64 - 1]


def test_members_are_lost_with_their_gateway():
    group = cluster(4)
    group.join(1, gateway=HERE)
    group.join(1, gateway=THERE)
    group.complete_all()
    heard = group.now
    group.run(gateway_heartbeat=GatewayHeartbeat(gateway_id=THERE))
    group.now = heard + GATEWAY_MICROS // 2
    group.run(gateway_heartbeat=GatewayHeartbeat(gateway_id=HERE))
    group.now = heard + GATEWAY_MICROS
    group.run(pulse=Pulse())
    assert [member.gateway_id for member in group.group().members] == [HERE]
    assert list(group.group().members[0].partitions) == [0, 1, 2, 3]
    # The gateway is not recorded: it has no members.
    assert group.run(gateway_heartbeat=GatewayHeartbeat(gateway_id=THERE)).update is None
    assert [record.gateway.id for record in group.machine.state.groups.gateways()] == [HERE]


def test_a_new_run_of_a_gateway_ends_the_members_of_earlier_ones():
    group = cluster(2)
    group.join(1, gateway=HERE)
    group.join(2, gateway=THERE)
    group.run(replace_gateway=ReplaceGateway(gateway_id=101, name="here"))
    assert [member.gateway_id for member in group.group().members] == [THERE]
    group.join(1, gateway=101)
    assert group.run(replace_gateway=ReplaceGateway(gateway_id=101, name="here")).update is None


def test_a_closed_connection_leaves_all_its_groups():
    group = cluster(2)
    group.create("h")
    for number in (0, 1):
        group.join(1, group=number)
        group.join(2, group=number)
    assert len(group.run(forget_client=ForgetClient(gateway_id=HERE, client_id=1)).update.deltas) == 2
    assert [member.client_id for number in (0, 1) for member in group.group(number).members] == [2, 2]
    assert group.run(forget_client=ForgetClient(gateway_id=HERE, client_id=1)).update is None


def test_a_deleted_user_s_members_leave():
    group = cluster(2)
    for name in ("root", "ann"):
        group.apply(create_user(name))
    group.join(1, actor=1)
    group.join(2, actor=0)
    group.run(delete_user=DeleteUser(user_id=1))
    assert group.owners() == {0: 2, 1: 2}


def test_refusals_in_their_order():
    group = cluster(1)
    group.join(1)
    for command, path, status in (
        (JoinConsumerGroup, (9, 9, 9), Status.STREAM_ID_NOT_FOUND),
        (JoinConsumerGroup, (0, 9, 9), Status.TOPIC_ID_NOT_FOUND),
        (JoinConsumerGroup, (0, 0, 9), Status.CONSUMER_GROUP_ID_NOT_FOUND),
        (LeaveConsumerGroup, (0, 0, 9), Status.CONSUMER_GROUP_ID_NOT_FOUND),
        (DeleteConsumerGroup, (0, 0, 9), Status.CONSUMER_GROUP_ID_NOT_FOUND),
        (LeaveConsumerGroup, (0, 0, 0), Status.CONSUMER_GROUP_MEMBER_NOT_FOUND),
    ):
        stream_id, topic_id, group_id = path
        name = {JoinConsumerGroup: "join", LeaveConsumerGroup: "leave", DeleteConsumerGroup: "delete"}[command]
        operation = command(stream_id=stream_id, topic_id=topic_id, group_id=group_id)
        group.run(status, **{f"{name}_consumer_group": operation})
    group.create("", Status.INVALID_FORMAT)
    group.create("g", Status.CONSUMER_GROUP_NAME_ALREADY_EXISTS)


def test_ids_are_reused_and_keys_are_not():
    group = cluster(1)
    group.create("h")
    group.run(delete_consumer_group=DeleteConsumerGroup(stream_id=0, topic_id=0, group_id=0))
    made = group.create("g").reply.consumer_group
    assert (made.id, made.key, made.members) == (0, 2, [])
    group.apply(delete_topic(0, 0))
    assert list(group.machine.catalog().consumer_groups) == []
    group.apply(create_topic(0, "t", 1))
    assert group.create("g").reply.consumer_group.key == 3


class GroupsUnderChange(RuleBasedStateMachine):
    """Random operations on two groups of one topic, in any order."""

    clients = st.integers(1, 6)
    gateways = st.sampled_from(sorted(GATEWAYS))
    groups = st.integers(0, 1)

    @initialize(partitions=st.integers(0, 7))
    def begin(self, partitions):
        self.cluster = cluster(partitions)
        self.cluster.create("h")
        self.partitions = partitions
        self.before = self.moves()

    def is_member(self, client, gateway, group):
        return any(
            (member.gateway_id, member.client_id) == (gateway, client) for member in self.cluster.group(group).members
        )

    def moves(self):
        """Return owner and revocation of every partition; members are identified by their incarnation."""
        found = {}
        for group in (0, 1):
            members = {member.id: member for member in self.cluster.group(group).members}
            for member in members.values():
                pending = {revocation.partition_id: revocation for revocation in member.revocations}
                for partition in member.partitions:
                    revocation = pending.get(partition)
                    to = members[revocation.to_member_id].incarnation if revocation is not None else None
                    found[group, partition] = (member.incarnation, to, revocation)
        return found

    @rule(client=clients, gateway=gateways, group=groups)
    def join(self, client, gateway, group):
        self.cluster.join(client, gateway=gateway, group=group)

    @rule(client=clients, gateway=gateways, group=groups)
    def leave(self, client, gateway, group):
        status = Status.OK if self.is_member(client, gateway, group) else Status.CONSUMER_GROUP_MEMBER_NOT_FOUND
        self.cluster.leave(client, gateway=gateway, group=group, status=status)

    @rule(client=clients, gateway=gateways)
    def close(self, client, gateway):
        self.cluster.run(forget_client=ForgetClient(gateway_id=gateway, client_id=client))
        assert not any(self.is_member(client, gateway, group) for group in (0, 1))

    @rule(group=groups, which=st.integers(0, 6))
    def complete_one(self, group, which):
        moving = sorted(self.cluster.revocations(group).items())
        if moving:
            partition, (_, to, revocation) = moving[which % len(moving)]
            self.cluster.complete((partition, revocation.incarnation), group=group)
            assert self.cluster.owners(group)[partition] == to

    @rule(count=st.integers(1, 3))
    def add_partitions(self, count):
        self.cluster.run(create_partitions=CreatePartitions(stream_id=0, topic_id=0, partitions_count=count))
        self.partitions += count

    @precondition(lambda self: self.partitions)
    @rule(count=st.integers(1, 3))
    def remove_partitions(self, count):
        count = min(count, self.partitions)
        self.cluster.run(delete_partitions=DeletePartitions(stream_id=0, topic_id=0, partitions_count=count))
        self.partitions -= count

    @rule(gateway=gateways)
    def heartbeat(self, gateway):
        self.cluster.run(gateway_heartbeat=GatewayHeartbeat(gateway_id=gateway))

    @rule(gateway=gateways)
    def restart_gateway(self, gateway):
        self.cluster.run(replace_gateway=ReplaceGateway(gateway_id=gateway, name=GATEWAYS[gateway]))

    @rule(micros=st.sampled_from([1, 5_000, 25_000, 40_000]))
    def time_passes(self, micros):
        self.cluster.now += micros
        due = is_pulse_due(self.cluster.machine.state, self.cluster.now + 1)
        applied = self.cluster.run(pulse=Pulse())
        assert (applied.update is not None) == due
        assert not is_pulse_due(self.cluster.machine.state, self.cluster.now)

    @invariant()
    def every_partition_has_one_owner(self):
        for group in (0, 1):
            record = self.cluster.group(group)
            owned = [partition for member in record.members for partition in member.partitions]
            assert len(owned) == len(set(owned))
            assert sorted(owned) == (list(range(self.partitions)) if record.members else [])
            assert record.partitions_count == self.partitions
            assert all(a.id < b.id for a, b in pairwise(record.members))

    @invariant()
    def no_partition_moves_twice(self):
        """A partition in revocation arrives at its next owner, unless one of the two has left; no other partition moves
        between members that stay.
        """
        now, before, self.before = self.moves(), self.before, self.moves()
        members = {member.incarnation for group in (0, 1) for member in self.cluster.group(group).members}
        for place, (owner, to, revocation) in before.items():
            if place not in now:
                continue
            new_owner, _, new_revocation = now[place]
            if owner in members and to is None:
                assert new_owner == owner
            elif owner in members and to in members:
                is_as_before = new_owner == owner and new_revocation == revocation
                assert is_as_before or new_owner == to
            elif owner in members:
                assert new_owner == owner
            elif to in members:
                assert new_owner == to

    @invariant()
    def all_are_balanced_in_the_end(self):
        """Partitions are balanced to within one after all revocations have ended."""
        later = Cluster()
        later.machine, later.now = self.cluster.machine.fork(), self.cluster.now
        for group in (0, 1):
            later.complete_all(group)
            counts = [len(member.partitions) for member in later.group(group).members]
            assert max(counts, default=0) - min(counts, default=0) <= 1

    @invariant()
    def gateways_are_those_with_members(self):
        expected = {member.gateway_id for group in (0, 1) for member in self.cluster.group(group).members}
        assert {record.gateway.id for record in self.cluster.machine.state.groups.gateways()} == expected

    def teardown(self):
        """A replay, or a restore at any point, ends in the same bytes."""
        if not hasattr(self, "cluster"):
            return
        replayed = StateMachine()
        for place, (now, command, applied) in enumerate(self.cluster.log):
            if place == len(self.cluster.log) // 2:
                replayed = StateMachine.restore(replayed.snapshot())
            result = replayed.apply(replayed.op + 1, now, command)
            assert (result.reply, result.update) == (applied.reply, applied.update)
        assert encoded(replayed) == encoded(self.cluster.machine)
        self.cluster.apply(delete_stream(0))
        assert list(self.cluster.machine.catalog().consumer_groups) == []
        assert self.cluster.machine.state.groups.gateways() == []


def encoded(machine):
    return machine.snapshot().SerializeToString(deterministic=True)


TestGroupsUnderChange = GroupsUnderChange.TestCase
TestGroupsUnderChange.settings = bounded(examples=60, steps=60)
