"""Invariants of placements while nodes and topics come and go, and partitions are moved by commands."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from metadata_commands import create_partitions, create_stream, create_topic, delete_topic, update_topic
from node_commands import LEASE_MICROS, complete, drain, place, pulse, rebalance, register, remove, renew
from tests.property_runs import bounded

from headrace_metadata.state_machine import StateMachine, is_pulse_due
from headrace_metadata.state_machine.placement.placement_order import packed_namespace, ranked
from headrace_proto.catalog.v1 import NODE_STATUS_LIVE
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, DeletePartitions, StateSnapshot

names = st.sampled_from("abcdef")
factors = st.sampled_from([1, 2, 3, 5])
numbers = st.integers(0, 9)
TOPICS = [(0, 0), (0, 1)]
topics = st.sampled_from(TOPICS)


class NodesUnderChange(RuleBasedStateMachine):
    @initialize(partitions=st.integers(0, 6), factor=factors)
    def begin(self, partitions, factor):
        self.machine = StateMachine()
        self.now = 1_000_000
        self.ids = {}
        self.runs = {}
        self.before = {}
        self.asked_to_move = True
        self.completed = {}
        self.removed = None
        self.propose(create_stream("s"))
        self.propose(create_topic(0, "t0", partitions, replication_factor=factor))
        self.propose(create_topic(0, "t1", 3, replication_factor=3))

    def propose(self, command, status=Status.OK):
        self.now += 1
        applied = self.machine.apply(self.machine.op + 1, self.now, command)
        assert applied.reply.status == status
        return applied.reply

    def topic(self, path):
        catalog = self.machine.state.catalog
        return next((topic for topic in catalog.topics_of(0) if (topic.stream_id, topic.id) == path), None)

    def placements(self, machine=None):
        """Return placements by topic, its incarnation and partition."""
        found = {}
        for placement in (machine or self.machine).state.nodes.placements():
            path = placement.stream_id, placement.topic_id
            topic = self.topic(path)
            assert len(topic.partitions) == len(placement.partitions)
            for partition, placed in zip(topic.partitions, placement.partitions, strict=True):
                found[path, partition.id, topic.incarnation, partition.incarnation] = placed
        return found

    def eligible(self):
        return {
            node.id: node.shards
            for node in self.machine.state.nodes.nodes()
            if node.status == NODE_STATUS_LIVE and not node.is_draining
        }

    def a_node(self, number):
        return sorted(self.ids.values())[number % len(self.ids)]

    # ---- nodes

    @rule(name=names, shards=st.sampled_from([1, 2, 8]))
    def register(self, name, shards):
        run = self.runs.get(name, 0) + 1
        node = self.propose(register(name, run, shards=shards)).node
        if name in self.ids:
            assert node.id == self.ids[name]
        else:
            assert node.id == max([0, *self.ids.values(), *self.completed.get("gone", ())]) + 1
        self.ids[name], self.runs[name] = node.id, run

    @precondition(lambda self: self.ids)
    @rule(number=numbers, is_late=st.booleans())
    def renew(self, number, is_late):
        name = sorted(self.ids)[number % len(self.ids)]
        run = self.runs[name] - is_late
        self.propose(renew(self.ids[name], run), Status.NODE_REPLACED if is_late else Status.OK)

    @rule(micros=st.sampled_from([1, LEASE_MICROS // 2, LEASE_MICROS]))
    def time_passes(self, micros):
        self.now += micros
        self.propose(pulse())
        assert not is_pulse_due(self.machine.state, self.now)

    @precondition(lambda self: self.ids)
    @rule(number=numbers, is_draining=st.booleans())
    def drain(self, number, is_draining):
        self.propose(drain(self.a_node(number), is_draining=is_draining))

    @precondition(lambda self: self.ids)
    @rule(number=numbers, with_replicas=st.booleans())
    def remove(self, number, with_replicas):
        node = self.a_node(number)
        is_named = any(
            node in placed.node_ids or node in placed.leaving_node_ids for placed in self.placements().values()
        )
        if is_named and not with_replicas:
            self.propose(remove(node), Status.NODE_IN_USE)
            return
        self.propose(remove(node, with_replicas=with_replicas))
        self.removed = node
        self.completed.setdefault("gone", []).append(node)
        self.ids = {name: node_id for name, node_id in self.ids.items() if node_id != node}

    # ---- topics

    @rule(path=topics, count=st.integers(1, 3))
    def add_partitions(self, path, count):
        if self.topic(path) is not None:
            self.propose(create_partitions(*path, count))

    @rule(path=topics, count=st.integers(1, 3))
    def remove_partitions(self, path, count):
        topic = self.topic(path)
        if topic is not None and len(topic.partitions) >= count:
            stream_id, topic_id = path
            self.propose(
                Command(
                    delete_partitions=DeletePartitions(stream_id=stream_id, topic_id=topic_id, partitions_count=count)
                )
            )

    @rule(path=topics, count=st.integers(0, 4), factor=factors)
    def make_again(self, path, count, factor):
        if self.topic(path) is not None:
            self.propose(delete_topic(*path))
        assert self.propose(create_topic(0, f"t{path[1]}", count, replication_factor=factor)).topic.id == path[1]

    @rule(path=topics, factor=factors)
    def want_another_number_of_replicas(self, path, factor):
        self.asked_to_move = True
        self.propose(update_topic(*path, f"t{path[1]}", replication_factor=factor))

    # ---- placements

    @precondition(lambda self: self.ids)
    @rule(path=topics, partition=numbers, chosen=st.lists(numbers, max_size=3))
    def place(self, path, partition, chosen):
        topic = self.topic(path)
        if not topic.partitions:
            return
        partition %= len(topic.partitions)
        nodes = [self.a_node(number) for number in chosen]
        present = self.machine.state.nodes.placement(*path).partitions[partition]
        allowed = {*self.eligible(), *present.node_ids}
        is_fine = len(nodes) <= topic.replication_factor and len(set(nodes)) == len(nodes) and set(nodes) <= allowed
        self.asked_to_move = True
        self.propose(place(path, partition, *nodes), Status.OK if is_fine else Status.INVALID_PLACEMENT)
        placed = self.machine.state.nodes.placement(*path).partitions[partition]
        if is_fine and nodes:
            assert placed.node_ids[: len(nodes)] == nodes
        if is_fine:
            assert placed.is_pinned == bool(nodes)

    @rule(path=topics, at_most=st.integers(0, 3))
    def rebalance(self, path, at_most):
        self.asked_to_move = True
        reply = self.propose(rebalance(path, at_most)).rebalanced
        assert at_most == 0 or reply.moved_count <= at_most

    @rule(path=topics, partition=numbers, is_late=st.booleans())
    def complete(self, path, partition, is_late):
        found = self.machine.state.nodes.placement(*path)
        if found is not None and partition < len(found.partitions):
            epoch = found.partitions[partition].epoch
            is_late = is_late and epoch > 0
            self.propose(complete(path, {partition: epoch - is_late}))
            if not is_late:
                self.completed["now"] = (path, partition)

    @rule()
    def restart(self):
        contents = self.machine.snapshot().SerializeToString(deterministic=True)
        self.machine = StateMachine.restore(StateSnapshot.FromString(contents))
        assert self.machine.snapshot().SerializeToString(deterministic=True) == contents

    # ---- at any time

    @invariant()
    def placements_make_sense(self):
        nodes = {node.id for node in self.machine.state.nodes.nodes()}
        assert nodes == set(self.ids.values())
        eligible = self.eligible()
        placements = self.placements()
        for (path, *_), placed in placements.items():
            factor = self.topic(path).replication_factor
            holding = [*placed.node_ids, *placed.leaving_node_ids]
            assert len(set(holding)) == len(holding)
            assert set(holding) <= nodes
            assert placed.holder_node_id in (holding or [0])
            assert len(placed.node_ids) <= factor
            assert len(placed.node_ids) == factor or set(eligible) <= set(placed.node_ids)
        if self.machine.state.nodes.is_used:
            assert len(placements) == sum(len(self.topic(path).partitions) for path in TOPICS)
        else:
            assert placements == {}

    @invariant()
    def nothing_moves_by_itself_and_no_holder_is_forgotten(self):
        before, self.before = self.before, self.placements()
        reported, self.asked_to_move = self.asked_to_move, False
        completed, removed, self.removed = self.completed.pop("now", None), self.removed, None
        eligible = self.eligible()
        for key, was in before.items():
            now = self.before.get(key)
            if now is None or now == was:
                continue
            assert now.epoch > was.epoch or (now.epoch == was.epoch and completed == key[:2])
            assert set(now.node_ids) - set(was.node_ids) <= set(eligible), "nothing new to who may not get it"
            held = {*was.node_ids, *was.leaving_node_ids} - {removed}
            if completed == key[:2]:
                held -= set(was.leaving_node_ids)
            assert held <= {*now.node_ids, *now.leaving_node_ids}
            if was.holder_node_id in held and completed != key[:2]:
                assert now.holder_node_id == was.holder_node_id
            if not reported:
                kept = [node for node in was.node_ids if node != removed]
                assert now.node_ids[: len(kept)] == kept

    @invariant()
    def rebalanced_to_the_end_it_is_where_the_hash_wants_it(self):
        """A second rebalance moves nothing; placements chosen by an operator stay."""
        later = self.machine.fork()
        chosen = {key: placed.node_ids for key, placed in self.placements().items() if placed.is_pinned}
        for path in TOPICS:
            present = later.state.nodes.placement(*path)
            epochs = {number: placed.epoch for number, placed in enumerate(present.partitions)} if present else {}
            for command in (complete(path, epochs), rebalance(path)):
                later.apply(later.op + 1, later.timestamp_micros + 1, command)
            again = later.apply(later.op + 1, later.timestamp_micros + 1, rebalance(path)).reply.rebalanced
            assert again.moved_count == again.remaining_count == 0
        eligible = self.eligible()
        before = self.placements()
        for key, placed in self.placements(later).items():
            (stream_id, topic_id), partition_id, *_ = key
            if key in chosen:
                assert placed.node_ids == chosen[key]
                continue
            factor = self.topic((stream_id, topic_id)).replication_factor
            wanted = ranked(packed_namespace(stream_id, topic_id, partition_id), eligible.items())[:factor]
            if eligible:
                assert placed.node_ids[: len(wanted)] == wanted
            # Other nodes in the record were there before.
            assert set(placed.node_ids[len(wanted) :]) <= set(before[key].node_ids)


TestNodesUnderChange = NodesUnderChange.TestCase
TestNodesUnderChange.settings = bounded(examples=40, steps=50)
