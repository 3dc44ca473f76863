"""Transactions compared with a plain model, including the partitions' handling of stages (CTL-2, CTL-9).

The model is written from the rules, not from the code. Its nodes drop stages when they may and append pending ones; at
the end, the messages visible to readers are counted.
"""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from metadata_commands import create_partitions, create_stream, create_topic
from node_commands import pulse
from projection import Projection
from tests.property_runs import bounded
from transaction_commands import abort, applied, at, commit, delete_transaction, stage

from headrace_metadata.state_machine import StateMachine, is_pulse_due
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    TRANSACTION_OUTCOME_ABORTED,
    TRANSACTION_OUTCOME_ALREADY_COMMITTED,
    TRANSACTION_OUTCOME_COMMITTED,
    Command,
    DeletePartitions,
    PurgeTopic,
    StateSnapshot,
)

PARTITIONS = 3
places = st.integers(0, PARTITIONS - 1)
# Distance from the last committed batch of the query.
steps = st.sampled_from([-2, -1, 0, 1, 1, 1, 2])
queries = st.sampled_from(["q", "r"])
names = st.sampled_from(["t", "u"])
lifetimes = st.sampled_from([1, 20, 35, 60, 90, 200, 5_000])


class Partition:
    """A partition of a node with all changes: its stages, and its appended messages."""

    def __init__(self, incarnation):
        self.incarnation = incarnation
        self.staged = []
        self.log = []
        self.applied = 0


class TransactionsAgainstModel(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.machine = StateMachine()
        self.now = 1_000_000
        self.projection = Projection(self.machine.catalog())
        self.partitions = []
        self.gone = []
        self.ids = 0
        # By transaction, the current query and the last batch of each query.
        self.writers = {}
        self.progress = {}
        self.given_up = {}
        # By stage, the partitions to which it was committed, and those where it really was staged.
        self.committed = {}
        self.promised = set()
        self.propose(create_stream("s"))
        self.propose(create_topic(0, "t", PARTITIONS))
        self.partitions = [Partition(self.machine.op) for _ in range(PARTITIONS)]

    def propose(self, command, passed=10):
        self.now += passed
        done = self.machine.apply(self.machine.op + 1, self.now, command)
        if done.update is not None:
            self.projection.apply(done.update)
        return done.reply

    def at(self, chosen):
        """Return the stages that a command names, by partition."""
        found = {}
        for number, stage_id in chosen:
            found.setdefault(number, []).append(stage_id)
        return [
            at((0, number, self.partitions[number].incarnation), *stage_ids)
            for number, stage_ids in sorted(found.items())
        ]

    @rule(number=places, lifetime=lifetimes)
    def stage(self, number, lifetime):
        if number < len(self.partitions):
            self.ids += 1
            self.partitions[number].staged.append(stage(self.now + lifetime, self.ids))

    def chosen(self, data):
        """Return some of all stages ever made, dropped or not, and some that were never made."""
        known = [(number, one) for number, partition in enumerate(self.partitions) for one in partition.staged]
        # Mostly stages not named yet; otherwise hardly any commit would succeed.
        known = [one for one in known if one[1] not in self.committed and one[1] not in self.given_up] * 4 + known
        known += [(0, one) for one in sorted(self.given_up)] + [(0, one) for one in sorted(self.committed)]
        if not known or not self.partitions:
            return []
        return data.draw(st.lists(st.sampled_from(known), unique_by=lambda one: one[1], min_size=1, max_size=3))

    def is_committed(self, name, query, batch):
        return batch <= self.progress.get((name, query), -1)

    def is_fenced(self, name, query):
        return self.writers.get(name, query) != query

    def batch(self, name, query, step):
        return max(0, self.progress.get((name, query), -1) + step)

    @rule(data=st.data(), name=names, query=queries, step=steps, fence=st.booleans())
    def commit(self, data, name, query, step, fence):
        batch = self.batch(name, query, step)
        chosen = self.chosen(data)
        reply = self.propose(commit(batch, *self.at(chosen), name=name, query_id=query, fence=fence))
        result = reply.transaction_result
        pending = {one for partition in self.pending() for _, ids in partition for one in ids}
        if self.is_committed(name, query, batch):
            assert result.outcome == TRANSACTION_OUTCOME_ALREADY_COMMITTED
            return
        if self.is_fenced(name, query) and not fence:
            assert reply.status == Status.TRANSACTION_FENCED
            return
        stage_ids = [one for _, one in chosen]
        for status, holds in (
            # Stages named by the command itself are pending now.
            (Status.STAGE_EXPIRED, lambda one: int.from_bytes(one[:8], "big") <= self.now),
            (Status.STAGE_ABORTED, lambda one: one in self.given_up),
            (Status.STAGE_IN_USE, lambda one: reply.status == Status.STAGE_IN_USE and one in pending),
        ):
            if reply.status == status:
                assert any(map(holds, stage_ids))
                return
            assert reply.status or not any(map(holds, stage_ids))
        assert (reply.status, result.outcome) == (0, TRANSACTION_OUTCOME_COMMITTED)
        self.writers[name] = query
        self.progress[name, query] = batch
        for number, one in chosen:
            self.committed.setdefault(one, set()).add(number)
            if one in self.partitions[number].staged:
                self.promised.add((number, one))

    @rule(data=st.data(), name=names, query=queries, step=steps)
    def abort(self, data, name, query, step):
        batch = self.batch(name, query, step)
        chosen = self.chosen(data)
        pending = {one for partition in self.pending() for _, ids in partition for one in ids}
        reply = self.propose(abort(batch, *self.at(chosen), name=name, query_id=query))
        if self.is_committed(name, query, batch):
            assert reply.transaction_result.outcome == TRANSACTION_OUTCOME_ALREADY_COMMITTED
        elif any(one in pending for _, one in chosen):
            assert reply.status == Status.STAGE_IN_USE
        else:
            assert reply.transaction_result.outcome == TRANSACTION_OUTCOME_ABORTED
            for _, one in chosen:
                if int.from_bytes(one[:8], "big") > self.now:
                    self.given_up.setdefault(one, self.now)

    @rule(name=names)
    def forget(self, name):
        self.propose(delete_transaction(name))
        self.writers.pop(name, None)
        for query in ("q", "r"):
            self.progress.pop((name, query), None)

    def pending(self):
        """Pending publications by partition."""
        return [
            [(one.number, list(one.stage_ids)) for one in self.machine.state.stages.publications_of((0, 0, number))]
            for number in range(len(self.partitions))
        ]

    @rule(number=places, heard=st.sampled_from(["all", "first", "nothing"]))
    def append(self, number, heard):
        """Let the node append pending stages; the report may get lost, and is then repeated."""
        if number >= len(self.partitions):
            return
        partition = self.partitions[number]
        pending = self.pending()[number]
        for publication, stage_ids in pending:
            if publication <= partition.applied:
                continue
            for one in stage_ids:
                # A stage committed for another partition than its own does not exist there.
                if one in partition.staged:
                    partition.staged.remove(one)
                    partition.log.append(one)
            partition.applied = publication
        if heard != "nothing" and pending:
            up_to = pending[0 if heard == "first" else -1][0]
            self.propose(applied((0, number, partition.incarnation), up_to))
            assert self.pending()[number] == (pending[1:] if heard == "first" else [])

    @rule(number=places)
    def drop(self, number):
        """Let the node drop aborted stages, and stages that have expired at the time up to which it is current."""
        if number >= len(self.partitions):
            return
        partition = self.partitions[number]
        pending = [one for _, ids in self.pending()[number] for one in ids]
        known = [one for record in self.machine.state.stages.aborted() for one in record.stage_ids]
        for one in list(partition.staged):
            if one in known or (int.from_bytes(one[:8], "big") <= self.now and one not in pending):
                partition.staged.remove(one)

    @rule(passed=st.sampled_from([50, 500, 6_000]))
    def time_passes(self, passed):
        self.propose(pulse(), passed)
        assert not is_pulse_due(self.machine.state, self.now)

    @rule()
    def purge(self):
        self.propose(Command(purge_topic=PurgeTopic()))
        assert not any(self.pending())
        for partition in self.partitions:
            partition.log.clear()
            partition.applied = self.machine.op
        self.committed.clear()
        self.promised.clear()

    @rule()
    def lose_a_partition(self):
        if self.propose(Command(delete_partitions=DeletePartitions(partitions_count=1))).status == 0:
            self.forget_stages_of(len(self.partitions) - 1)

    @rule()
    def gain_a_partition(self):
        if len(self.partitions) < PARTITIONS:
            assert self.propose(create_partitions(0, 0, 1)).status == 0
            self.partitions.append(Partition(self.machine.op))

    def forget_stages_of(self, number):
        self.partitions.pop()
        # Aborted stages are neither visible nor retried.
        known = [one for record in self.machine.state.stages.aborted() for one in record.stage_ids]
        self.given_up = {one: at for one, at in self.given_up.items() if one in known}
        self.committed = {one: places for one, places in self.committed.items() if number not in places}
        self.promised = {(place, one) for place, one in self.promised if place != number}

    @rule()
    def restart(self):
        encoded = self.machine.snapshot().SerializeToString(deterministic=True)
        self.machine = StateMachine.restore(StateSnapshot.FromString(encoded))
        assert self.machine.snapshot().SerializeToString(deterministic=True) == encoded

    @invariant()
    def a_follower_of_the_updates_sees_the_catalog(self):
        assert self.projection.snapshot() == self.machine.catalog()

    @invariant()
    def counts_are_those_of_the_records(self):
        stages = self.machine.state.stages
        assert stages.publications_count == sum(1 for _ in stages.publications())
        assert stages.pending_count == sum(len(one.stage_ids) for one in stages.publications())
        assert stages.aborted_count == sum(len(one.stage_ids) for one in stages.aborted())
        for number, publications in enumerate(self.pending()):
            assert stages.pending_at((0, 0, number)) == sum(len(ids) for _, ids in publications)

    @invariant()
    def what_is_staged_is_of_partitions_that_exist(self):
        for record in (*self.machine.state.stages.publications(), *self.machine.state.stages.aborted()):
            assert self.partitions[record.partition_id].incarnation == record.partition_incarnation

    @invariant()
    def nothing_is_read_twice_or_against_the_will_of_its_writer(self):
        for number, partition in enumerate(self.partitions):
            assert len(set(partition.log)) == len(partition.log)
            assert all(number in self.committed[one] for one in partition.log)

    def teardown(self):
        """Committed stages can be read in the end, regardless of stages dropped in between."""
        for number in range(len(self.partitions)):
            self.append(number, heard="all")
        assert not any(self.pending())
        for number, one in self.promised:
            assert one in self.partitions[number].log


TestTransactionsAgainstModel = TransactionsAgainstModel.TestCase
TestTransactionsAgainstModel.settings = bounded(examples=120, steps=60)
