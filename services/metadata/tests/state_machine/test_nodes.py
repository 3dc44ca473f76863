"""Partition nodes and placement: each rule with its status."""

import pytest
from metadata_commands import create_partitions, create_stream, create_topic, delete_stream, delete_topic, update_topic
from metadata_driver import Driver
from node_commands import LEASE_MICROS, complete, drain, place, pulse, rebalance, register, remove, renew

from headrace_metadata.applied_state import AppliedState
from headrace_metadata.state_machine import StateMachine
from headrace_proto.catalog.v1 import NODE_STATUS_LIVE, NODE_STATUS_SILENT, PartitionPlacement
from headrace_proto.errors import Status
from headrace_proto.limits import NODES_MAX
from headrace_proto.metadata.v1 import Command, DeletePartitions, RegisterNode, StateSnapshot

TOPIC = (0, 0)


class Nodes(Driver):
    """Driver with queries about nodes."""

    def nodes(self):
        return {node.id: node for node in self.machine.catalog().nodes}

    def placement(self, topic=TOPIC):
        return list(self.machine.state.nodes.placement(*topic).partitions)

    def replicas(self, topic=TOPIC):
        return [list(partition.node_ids) for partition in self.placement(topic)]

    def leaving(self, topic=TOPIC):
        return [list(partition.leaving_node_ids) for partition in self.placement(topic)]

    def all_done(self, topic=TOPIC):
        self(complete(topic, {number: partition.epoch for number, partition in enumerate(self.placement(topic))}))


@pytest.fixture
def do():
    return Nodes()


@pytest.fixture
def three(do):
    """Return three nodes, and a topic of 12 partitions with 2 replicas each."""
    do(*(register(name) for name in "abc"), create_stream("s"), create_topic(0, "t", 12, replication_factor=2))
    return do


def test_a_node_is_known_by_its_name(do):
    first = do(register("a", 7)).reply.node
    assert (first.id, first.status, first.incarnation) == (1, NODE_STATUS_LIVE, 7)
    assert (first.binary_address, first.grpc_address) == ("a:8100", "a:8101")
    assert do(register("b")).reply.node.id == 2
    again = do(register("a", 8, shards=9)).reply.node
    assert (again.id, again.incarnation, again.shards) == (1, 8, 9)
    assert again.registered_at_micros == first.registered_at_micros
    # The replaced run gets this status, and its later commands have no effect.
    assert do.status(renew(1, 7)) == Status.NODE_REPLACED
    assert do.status(renew(1, 8)) == Status.OK
    assert do(register("a", 8, shards=9)).update is None


def test_ids_of_nodes_are_never_reused(do):
    do(register("a"), register("b"), remove(2), remove(1))
    assert do(register("b")).reply.node.id == 3
    restored = StateMachine.restore(StateSnapshot.FromString(do.machine.snapshot().SerializeToString()))
    assert restored.apply(restored.op + 1, do.now + 1, register("c")).reply.node.id == 4


def test_refusals_in_their_order(three):
    valid = register("d").register_node
    for field, value, status in (
        ("name", "", Status.INVALID_FORMAT),
        ("binary_address", "", Status.INVALID_FORMAT),
        ("grpc_address", "x" * 256, Status.INVALID_FORMAT),
        ("incarnation", 0, Status.INVALID_COMMAND),
        ("shards", 0, Status.INVALID_COMMAND),
        ("shards", 2**16, Status.INVALID_COMMAND),
        ("lease_micros", 0, Status.INVALID_COMMAND),
    ):
        wrong = RegisterNode()
        wrong.CopyFrom(valid)
        setattr(wrong, field, value)
        assert three.status(Command(register_node=wrong)) == status, field
    for command in (renew(9), drain(9), remove(9), place(TOPIC, 0, 9)):
        assert three.status(command) == Status.NODE_NOT_FOUND
    assert three.status(place((9, 0), 0, 1)) == Status.STREAM_ID_NOT_FOUND
    assert three.status(place((0, 9), 0, 1)) == Status.TOPIC_ID_NOT_FOUND
    assert three.status(place(TOPIC, 12, 1)) == Status.PARTITION_NOT_FOUND
    assert three.status(place(TOPIC, 0, 1, 1)) == Status.INVALID_PLACEMENT
    assert three.status(place(TOPIC, 0, 1, 2, 3)) == Status.INVALID_PLACEMENT
    assert three.status(rebalance((0, 9))) == Status.TOPIC_ID_NOT_FOUND
    assert three.status(remove(1)) == Status.NODE_IN_USE


def test_as_many_nodes_as_there_may_be(do):
    do(*(register(f"node {number}") for number in range(NODES_MAX)))
    assert do.status(register("one more")) == Status.TOO_MANY_NODES
    assert do.status(register("node 0", 2)) == Status.OK


def test_a_lease_ends_by_the_time_in_the_operation(three):
    heard = three.now
    three.now = heard + LEASE_MICROS // 2
    three(renew(1), renew(2))
    before = three.replicas()
    three.now = heard + LEASE_MICROS
    state = AppliedState(three.machine)
    assert state.is_pulse_due(three.now + 1)
    three(pulse())
    assert [node.status for node in three.nodes().values()] == [NODE_STATUS_LIVE, NODE_STATUS_LIVE, NODE_STATUS_SILENT]
    assert not state.is_pulse_due(three.now)
    assert three(pulse()).update is None
    # The node keeps its replicas; it gets no new ones.
    assert three.replicas() == before
    three(create_partitions(0, 0, 20))
    assert {node for replicas in three.replicas()[12:] for node in replicas} == {1, 2}
    three(renew(3))
    assert three.nodes()[3].status == NODE_STATUS_LIVE
    assert three(renew(3)).update is None


def test_without_nodes_everything_is_here(do):
    """Without registered nodes, partitions are not placed, as in the embedded server."""
    do(create_stream("s"), create_topic(0, "t", 3), create_partitions(0, 0, 1))
    assert do.machine.state.nodes.placement(*TOPIC) is None
    assert not do(rebalance(TOPIC)).reply.rebalanced.moved_count
    assert do.status(place(TOPIC, 0)) == Status.OK
    assert list(do.machine.catalog().topic_placements) == []
    # The first node gets all partitions.
    do(register("a"))
    assert do.replicas() == [[1]] * 4


def test_partitions_are_placed_with_their_topic_and_go_with_it(three):
    assert all(len(set(replicas)) == 2 for replicas in three.replicas())
    assert {node for replicas in three.replicas() for node in replicas} == {1, 2, 3}
    assert all(partition.epoch == three.machine.op for partition in three.placement())
    three(create_partitions(0, 0, 2))
    assert len(three.replicas()) == 14
    kept = three.placement()[:5]
    three(Command(delete_partitions=DeletePartitions(stream_id=0, topic_id=0, partitions_count=9)))
    assert three.placement() == kept
    three(delete_topic(0, 0))
    assert list(three.machine.catalog().topic_placements) == []
    three(create_topic(0, "t"), delete_stream(0))
    assert list(three.machine.catalog().topic_placements) == []


def test_a_topic_gets_the_replicas_that_it_lacks(do):
    do(create_stream("s"), create_topic(0, "t", 4, replication_factor=3), register("a"))
    assert do.replicas() == [[1]] * 4
    do(register("b"))
    assert do.replicas() == [[1, 2]] * 4
    do(drain(2), register("c"), register("d"))
    assert all(replicas[:2] == [1, 2] and len(replicas) == 3 for replicas in do.replicas())
    do(update_topic(0, 0, "t", replication_factor=1))
    assert do.replicas() == [[1]] * 4
    assert all(len(leaving) == 2 for leaving in do.leaving())
    do.all_done()
    assert do.leaving() == [[]] * 4


def test_who_joins_moves_nothing_before_it_is_reported(three):
    before = three.replicas()
    three(register("d"))
    assert three.replicas() == before
    reply = three(rebalance(TOPIC, 2)).reply.rebalanced
    assert reply.moved_count == 2
    moved = [number for number, replicas in enumerate(three.replicas()) if replicas != before[number]]
    assert len(moved) == 2
    # The old leader stays the leader until the others have all data.
    for number in moved:
        assert 4 in three.replicas()[number]
        assert {*three.replicas()[number], *three.leaving()[number]} == {*before[number], 4}
    assert three(rebalance(TOPIC)).reply.rebalanced.moved_count == reply.remaining_count
    three.all_done()
    assert three(rebalance(TOPIC)).reply.rebalanced == type(reply)()


def test_a_draining_node_is_emptied_by_rebalancing(three):
    three(drain(2), rebalance(TOPIC))
    assert {node for replicas in three.replicas() for node in replicas} == {1, 3}
    assert any(2 in leaving for leaving in three.leaving())
    assert three.status(remove(2)) == Status.NODE_IN_USE
    three.all_done()
    three(remove(2))
    assert sorted(three.nodes()) == [1, 3]
    # Nor can the draining node be chosen explicitly.
    three(drain(3))
    three(register("d"), place(TOPIC, 0, 1, 4))
    assert three.status(place(TOPIC, 0, 1, 3)) == Status.INVALID_PLACEMENT
    three(drain(3, is_draining=False), place(TOPIC, 0, 1, 3))


def test_a_lost_node_is_replaced_where_it_was(three):
    before = three.replicas()
    three(register("d"), remove(2, with_replicas=True))
    for was, now in zip(before, three.replicas(), strict=True):
        assert 2 not in now
        assert len(now) == 2
        assert [node for node in was if node != 2] == now[: len(was) - (2 in was)]
        assert was == now or 2 in was


def test_where_no_member_is_left_it_stays_with_who_was_to_give_it_up(do):
    do(register("a"), register("b"), create_stream("s"), create_topic(0, "t", 1, replication_factor=2))
    do.now += LEASE_MICROS
    do(pulse(), update_topic(*TOPIC, "t", replication_factor=1))
    ((kept,),), ((left,),) = do.replicas(), do.leaving()
    do(remove(kept, with_replicas=True))
    (placed,) = do.placement()
    assert (list(placed.node_ids), list(placed.leaving_node_ids), placed.holder_node_id) == ([], [left], left)


def test_a_chosen_placement_stays(three):
    chosen = [[3, 1]]
    three(place(TOPIC, 0, 3, 1))
    assert three.replicas()[:1] == chosen
    assert three.placement()[0].is_pinned
    assert three(place(TOPIC, 0, 3, 1)).update is None
    three(*(register(name) for name in "defg"), rebalance(TOPIC))
    assert three.replicas()[:1] == chosen
    three.all_done()
    three(place(TOPIC, 0))
    assert not three.placement()[0].is_pinned
    assert three(rebalance(TOPIC)).reply.rebalanced.moved_count == 0


def test_a_late_word_about_a_placement_changes_nothing(three):
    three(place(TOPIC, 0, 1, 2))
    before = three.placement()[0].holder_node_id
    three(place(TOPIC, 0, 2, 3))
    present = three.placement()[0]
    assert present == PartitionPlacement(
        node_ids=[2, 3],
        leaving_node_ids=present.leaving_node_ids,
        epoch=three.machine.op,
        is_pinned=True,
        holder_node_id=before,
    )
    assert 1 in present.leaving_node_ids
    for topic, epochs in ((TOPIC, {0: present.epoch - 1}), (TOPIC, {99: present.epoch}), ((9, 9), {0: 1})):
        assert three(complete(topic, epochs)).update is None
    three(complete(TOPIC, {0: present.epoch}))
    assert three.leaving()[0] == []
    assert three.placement()[0].holder_node_id == 2


def test_a_partition_is_served_where_it_was_until_the_others_have_everything(three):
    three(place(TOPIC, 0, 2, 1))
    three(complete(TOPIC, {0: three.placement()[0].epoch}))
    assert three.placement()[0].holder_node_id == 2
    for chosen in ([1, 2], [3, 1], [1, 3]):
        three(place(TOPIC, 0, *chosen))
        assert (list(three.placement()[0].node_ids), three.placement()[0].holder_node_id) == (chosen, 2)
    three(remove(2, with_replicas=True))
    assert three.placement()[0].holder_node_id == 1


def test_what_is_placed_on_whom_is_counted(three):
    records = AppliedState(three.machine).nodes()
    assert [record.node.name for record in records] == ["a", "b", "c"]
    assert sum(record.replicas_count for record in records) == 24
    assert sum(record.primaries_count for record in records) == 12
    assert records[2].lease_until_micros == 1_000_003 + LEASE_MICROS
    three(drain(2), rebalance(TOPIC))
    assert AppliedState(three.machine).nodes()[1].leaving_count == records[1].replicas_count
