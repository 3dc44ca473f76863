"""Transactions: atomic, exactly-once commits, and aborts; each rule with its status."""

import pytest
from metadata_commands import (
    create_partitions,
    create_stream,
    create_topic,
    create_user,
    delete_stream,
    delete_topic,
)
from metadata_driver import Driver
from node_commands import pulse
from transaction_commands import abort, applied, at, commit, delete_transaction, stage

from headrace_metadata.applied_state import AppliedState
from headrace_metadata.state_machine import StateMachine
from headrace_metadata.state_machine.transactions import transactions
from headrace_proto.catalog.v1 import Delta, PublicationKey
from headrace_proto.errors import Status
from headrace_proto.limits import (
    QUERIES_PER_TRANSACTION_MAX,
    STAGE_LIFETIME_SECONDS_MAX,
    STAGES_PER_COMMAND_MAX,
    TRANSACTION_KEPT_SECONDS_MIN,
)
from headrace_proto.metadata.v1 import (
    TRANSACTION_OUTCOME_ABORTED,
    TRANSACTION_OUTCOME_ALREADY_COMMITTED,
    TRANSACTION_OUTCOME_COMMITTED,
    Command,
    DeletePartitions,
    DeleteUser,
    PurgeStream,
    PurgeTopic,
    StateSnapshot,
)

# Topic, partition, and the op that created the partition.
A, B, C = (0, 0, 2), (0, 1, 2), (1, 0, 3)
LATER = 10_000_000


class Transactions(Driver):
    """Driver with queries about transactions."""

    def outcome(self, command):
        return self(command).reply.transaction_result.outcome

    def pending(self):
        """Return number and stages of every pending publication, by topic and partition."""
        found = {}
        for one in self.machine.catalog().publications:
            found.setdefault((one.topic_id, one.partition_id), []).append((one.number, list(one.stage_ids)))
        return found

    def aborted(self):
        catalog = self.machine.catalog()
        return [(one.topic_id, one.partition_id, list(one.stage_ids)) for one in catalog.aborted_stages]

    def last(self, name="t"):
        return self.machine.state.transactions.find(0, name)


@pytest.fixture
def do():
    """Return a stream with a topic of two partitions, and one of a single partition."""
    driver = Transactions()
    driver(create_stream("s"), create_topic(0, "one", 2), create_topic(0, "two", 1))
    return driver


def test_a_commit_names_what_its_partitions_are_to_append(do):
    first, second, third = (stage(LATER, which) for which in range(3))
    done = do(commit(7, at(B, second, first), at(C, third)))
    number = do.machine.op
    result = done.reply.transaction_result
    assert result.outcome == TRANSACTION_OUTCOME_COMMITTED
    last = result.transaction
    assert (last.name, last.query_id, last.batch_id, last.number, last.committed_at_micros) == (
        "t",
        "q",
        7,
        number,
        do.now,
    )
    # The order of the command is kept within a partition.
    assert do.pending() == {(0, 1): [(number, [second, first])], (1, 0): [(number, [third])]}
    assert {one.partition_incarnation for one in do.machine.catalog().publications} == {2, 3}
    assert [delta.WhichOneof("change") for delta in done.update.deltas] == ["publication_put"] * 2
    again = commit(8, at(B, stage(LATER, 3)), at(B, stage(LATER, 4)))
    do(again)
    assert do.pending()[0, 1][1] == (number + 1, [stage(LATER, 3), stage(LATER, 4)])


def test_an_empty_batch_is_committed_as_well(do):
    assert do(commit(0)).update is None
    assert do.last().batch_id == 0
    assert do.outcome(commit(0)) == TRANSACTION_OUTCOME_ALREADY_COMMITTED
    assert do.outcome(commit(1, at(A))) == TRANSACTION_OUTCOME_COMMITTED
    assert do.pending() == {}


def test_a_batch_is_committed_once(do):
    do(commit(5, at(A, stage(LATER))))
    before = do.machine.catalog()
    # The same batch, the batch with other stages of a retry, and an earlier batch.
    for repeated in (commit(5, at(A, stage(LATER))), commit(5, at(B, stage(LATER, 1))), commit(4), commit(0)):
        result = do(repeated).reply.transaction_result
        assert (result.outcome, result.transaction.batch_id) == (TRANSACTION_OUTCOME_ALREADY_COMMITTED, 5)
    assert do.machine.catalog() == before
    # Repeated after the stages have expired and the topic was deleted.
    do.now += LATER
    do(delete_topic(0, 0), pulse())
    assert do.outcome(commit(5, at(A, stage(LATER)))) == TRANSACTION_OUTCOME_ALREADY_COMMITTED
    assert do.outcome(abort(5, at(A, stage(LATER)))) == TRANSACTION_OUTCOME_ALREADY_COMMITTED
    assert do.outcome(commit(6)) == TRANSACTION_OUTCOME_COMMITTED
    # Batch numbers may have gaps.
    assert do.outcome(commit(2**64 - 1)) == TRANSACTION_OUTCOME_COMMITTED


def test_names_distinguish_transactions(do):
    do(create_stream("other"))
    do(commit(5), commit(1, name="u"), commit(1, stream_id=1))
    assert (do.last().batch_id, do.last("u").batch_id) == (5, 1)
    assert do.machine.state.transactions.find(1, "t").batch_id == 1
    assert do.status(commit(1, query_id="r")) == Status.TRANSACTION_FENCED
    assert AppliedState(do.machine).transaction(0, "v") is None


def test_another_query_is_kept_out_unless_it_takes_over(do):
    do(commit(5))
    intruder = commit(0, at(A, stage(LATER)), query_id="r")
    assert do.status(intruder) == Status.TRANSACTION_FENCED
    assert do.pending() == {}
    intruder.commit_transaction.fence = True
    assert do.outcome(intruder) == TRANSACTION_OUTCOME_COMMITTED
    assert (do.last().query_id, do.last().batch_id) == ("r", 0)
    assert do.status(commit(6)) == Status.TRANSACTION_FENCED
    assert do.outcome(commit(1, query_id="r")) == TRANSACTION_OUTCOME_COMMITTED


def test_a_query_goes_on_behind_its_own_batches(do):
    """After a takeover of the name, batches committed before are not committed again."""
    do(commit(5), commit(3, query_id="r", fence=True))
    # The new writer may not know of that commit.
    assert do.outcome(commit(5)) == TRANSACTION_OUTCOME_ALREADY_COMMITTED
    assert do.outcome(abort(5, at(A, stage(LATER)))) == TRANSACTION_OUTCOME_ALREADY_COMMITTED
    assert do.outcome(commit(5, fence=True)) == TRANSACTION_OUTCOME_ALREADY_COMMITTED
    assert do.last().query_id == "r"
    assert do.status(commit(6)) == Status.TRANSACTION_FENCED
    assert do.outcome(commit(6, fence=True)) == TRANSACTION_OUTCOME_COMMITTED
    assert [(one.query_id, one.batch_id) for one in do.last().earlier_queries] == [("r", 3)]
    assert do.outcome(commit(3, query_id="r", fence=True)) == TRANSACTION_OUTCOME_ALREADY_COMMITTED


def test_the_last_queries_are_remembered(do):
    for number in range(QUERIES_PER_TRANSACTION_MAX + 3):
        do(commit(number, query_id=f"q{number}", fence=True))
    assert [one.query_id for one in do.last().earlier_queries] == [
        f"q{number}" for number in range(2, QUERIES_PER_TRANSACTION_MAX + 2)
    ]


def test_a_stage_that_has_expired_is_not_committed(do):
    """The time of the operation decides: once all changes up to the expiry are known, no commit can name the stage."""
    do.now = LATER - 2
    assert do.outcome(commit(1, at(A, stage(LATER)))) == TRANSACTION_OUTCOME_COMMITTED
    assert do.now == LATER - 1
    late = commit(2, at(A, stage(LATER + 1)), at(B, stage(LATER, 1)))
    assert do.status(late) == Status.STAGE_EXPIRED
    assert do.now == LATER
    assert len(do.pending()) == 1
    assert do.last().batch_id == 1


def test_a_stage_that_was_given_up_is_not_committed(do):
    given_up, kept = stage(LATER), stage(LATER, 1)
    done = do(abort(1, at(A, given_up)))
    assert done.reply.transaction_result.outcome == TRANSACTION_OUTCOME_ABORTED
    assert not done.reply.transaction_result.HasField("transaction")
    assert do.aborted() == [(0, 0, [given_up])]
    # No batch or transaction may name an aborted stage.
    for late in (commit(1, at(A, given_up)), commit(9, at(A, kept, given_up), name="u")):
        assert do.status(late) == Status.STAGE_ABORTED
    assert do.outcome(commit(1, at(A, kept))) == TRANSACTION_OUTCOME_COMMITTED
    # Aborting is idempotent.
    done = do(abort(2, at(A, given_up)))
    assert done.update is None
    assert done.reply.transaction_result.transaction.batch_id == 1


def test_what_was_given_up_is_remembered_until_it_has_expired(do):
    do(abort(1, at(A, stage(2_000_000), stage(3_000_000)), at(B, stage(2_500_000))))
    do(abort(2, at(A, stage(2_000_000, 1))))
    state = AppliedState(do.machine)
    do.now = 2_000_000 - 2
    assert not state.is_pulse_due(do.now)
    assert do(pulse()).update is None
    # The stages of one command at one partition are forgotten together, with the last one to expire.
    assert state.is_pulse_due(2_000_000)
    done = do(pulse())
    key = PublicationKey(topic_id=0, partition_id=0, number=do.machine.op - 2)
    assert list(done.update.deltas) == [Delta(aborted_stages_deleted=key)]
    assert not state.is_pulse_due(do.now)
    do.now = 2_500_000
    do(pulse())
    assert do.aborted() == [(0, 0, [stage(2_000_000), stage(3_000_000)])]
    do.now = 3_000_000
    do(pulse())
    assert do.aborted() == []
    assert do.machine.state.stages.aborted_count == 0
    assert do.status(commit(1, at(A, stage(3_000_000)))) == Status.STAGE_EXPIRED


def test_what_need_not_be_given_up_is_left_out(do):
    over, gone, valid = stage(do.now), stage(LATER, 1), stage(LATER, 2)
    do(abort(1, at(A, over, valid), at((0, 9, 2), gone), at(C, stage(1))))
    assert do.aborted() == [(0, 0, [valid])]
    assert do.outcome(abort(1, at((0, 0, 99), gone))) == TRANSACTION_OUTCOME_ABORTED
    assert do.outcome(abort(1, at((9, 0, 2), gone))) == TRANSACTION_OUTCOME_ABORTED
    assert do.aborted() == [(0, 0, [valid])]


def test_a_stage_is_part_of_one_commit(do):
    do(commit(1, at(A, stage(LATER))))
    assert do.status(commit(2, at(A, stage(LATER)))) == Status.STAGE_IN_USE
    assert do.status(commit(2, at(B, stage(LATER)), name="u")) == Status.STAGE_IN_USE
    # The stage is committed: aborting it would lose committed messages that are not appended yet.
    assert do.status(abort(2, at(A, stage(LATER)))) == Status.STAGE_IN_USE
    for twice in (at(A, stage(LATER, 1), stage(LATER, 1)), at(B, stage(LATER, 1))):
        command = commit(2, at(A, stage(LATER, 1)), twice)
        assert do.status(command) == Status.STAGE_IN_USE
    assert do.pending() == {(0, 0): [(do.machine.op - 5, [stage(LATER)])]}


def test_refusals_in_their_order(do):
    good = at(A, stage(LATER))
    far = stage(do.now + (STAGE_LIFETIME_SECONDS_MAX + 2 * 86_400) * 1_000_000)
    many = [stage(LATER, which) for which in range(STAGES_PER_COMMAND_MAX + 1)]
    for make in (commit, abort):
        for command, status in (
            (make(1, good, name=""), Status.INVALID_FORMAT),
            (make(1, good, name="x" * 256), Status.INVALID_FORMAT),
            (make(1, good, query_id=""), Status.INVALID_FORMAT),
            (make(1, at(A, b"short"), stream_id=9), Status.INVALID_COMMAND),
            (make(1, at(A, far)), Status.INVALID_COMMAND),
            (make(1, at(A, *many)), Status.INVALID_COMMAND),
            (make(1, good, at((0, 0, 3), stage(LATER, 1))), Status.INVALID_COMMAND),
            (make(1, good, good, stream_id=9), Status.STAGE_IN_USE),
            (make(1, good, stream_id=9), Status.STREAM_ID_NOT_FOUND),
        ):
            assert do.status(command) == status
    do(commit(1), abort(2, at(A, stage(LATER, 7))))
    nowhere, over, given_up = at((9, 0, 2), stage(1)), at(A, stage(1, 1)), at(A, stage(LATER, 7))
    for command, status in (
        (commit(2, nowhere, query_id="r"), Status.TRANSACTION_FENCED),
        (commit(2, nowhere, over), Status.TOPIC_ID_NOT_FOUND),
        (commit(2, at((0, 2, 2), stage(1))), Status.PARTITION_NOT_FOUND),
        # The partition id was used by an earlier incarnation.
        (commit(2, at((0, 0, 1), stage(1))), Status.PARTITION_NOT_FOUND),
        (commit(2, over, given_up), Status.STAGE_EXPIRED),
        (commit(2, given_up), Status.STAGE_ABORTED),
    ):
        assert do.status(command) == status
    assert do.status(delete_transaction(stream_id=9)) == Status.STREAM_ID_NOT_FOUND
    assert do.status(commit(2, at(A, *many[8:]))) == 0


def test_what_is_appended_is_pending_no_more(do):
    do(commit(1, at(A, stage(LATER)), at(B, stage(LATER, 1))))
    first = do.machine.op
    do(commit(2, at(A, stage(LATER, 2))), commit(3, at(A, stage(LATER, 3))))
    done = do(applied(A, first + 1))
    assert [number for number, _ in do.pending()[0, 0]] == [first + 2]
    assert [number for number, _ in do.pending()[0, 1]] == [first]
    (delta,) = done.update.deltas
    assert delta.publications_deleted.number == first + 1
    # Repeated reports, and reports about stages that are not pending, have no effect.
    for command in (
        applied(A, first + 1),
        applied((0, 1, 99), first),
        applied((9, 9, 9), first),
        applied(B, first - 1),
    ):
        assert do(command).update is None
    (delta,) = do(applied(A, 2**64 - 1)).update.deltas
    assert delta.publications_deleted.number == first + 2
    # The batch stays committed.
    assert do.outcome(commit(3, at(A, stage(LATER, 3)))) == TRANSACTION_OUTCOME_ALREADY_COMMITTED


@pytest.mark.parametrize(
    ("command", "pending", "aborted"),
    [
        (Command(purge_topic=PurgeTopic(stream_id=0, topic_id=0)), {(1, 0)}, 3),
        (Command(purge_stream=PurgeStream(stream_id=0)), set(), 3),
        (Command(delete_partitions=DeletePartitions(stream_id=0, topic_id=0, partitions_count=1)), {(0, 0), (1, 0)}, 2),
        (delete_topic(0, 0), {(1, 0)}, 1),
        (delete_stream(0), set(), 0),
    ],
)
def test_what_becomes_of_partitions_becomes_of_their_stages(do, command, pending, aborted):
    stages = iter(range(100))
    for _ in range(2):
        do(commit(next(stages), *(at(place, stage(LATER, next(stages))) for place in (A, B, C))))
    do(abort(99, *(at(place, stage(LATER, next(stages))) for place in (A, B, C))))
    do(command)
    assert do.pending().keys() == pending
    assert len(do.aborted()) == aborted
    state = do.machine.state.stages
    assert (state.publications_count, state.pending_count, state.aborted_count) == (
        2 * len(pending),
        2 * len(pending),
        aborted,
    )
    again = StateMachine.restore(StateSnapshot.FromString(do.machine.snapshot().SerializeToString()))
    assert again.state.stages.pending_count == state.pending_count
    do.now += LATER
    do(pulse())
    assert do.aborted() == []


def test_a_partition_that_comes_again_is_another_one(do):
    do(Command(delete_partitions=DeletePartitions(stream_id=0, topic_id=0, partitions_count=1)))
    do(create_partitions(0, 0, 1))
    number = do.machine.op
    assert do.status(commit(1, at(B, stage(LATER)))) == Status.PARTITION_NOT_FOUND
    do(commit(1, at((0, 1, number), stage(LATER))))
    assert do(applied(B, 2**64 - 1)).update is None
    assert do.pending().keys() == {(0, 1)}


def test_transactions_go_with_their_stream(do):
    do(create_stream("other"), commit(5), commit(1, stream_id=1), delete_stream(0))
    assert [one.stream_id for one in do.machine.snapshot().transactions] == [1]
    do(create_stream("s"))
    assert do.outcome(commit(1)) == TRANSACTION_OUTCOME_COMMITTED


def test_a_transaction_that_is_forgotten_is_new(do):
    do(commit(5), delete_transaction())
    assert do.last() is None
    assert do(delete_transaction()).update is None
    assert do.outcome(commit(1, query_id="r")) == TRANSACTION_OUTCOME_COMMITTED


def test_partitions_that_append_nothing_hold_up_their_own_writers(do, monkeypatch):
    monkeypatch.setattr(transactions, "STAGES_PENDING_PER_PARTITION_MAX", 3)
    monkeypatch.setattr(transactions, "STAGES_PENDING_MAX", 5)
    do(commit(1, at(A, *(stage(LATER, which) for which in range(3)))))
    assert do.status(commit(2, at(A, stage(LATER, 9)), at(B, stage(LATER, 10)))) == Status.TOO_MANY_STAGES
    do(commit(2, at(B, stage(LATER, 11), stage(LATER, 12))))
    assert do.status(commit(3, at(B, stage(LATER, 13)))) == Status.TOO_MANY_STAGES
    assert do.status(commit(3, at(C, stage(LATER, 14)))) == Status.TOO_MANY_STAGES
    do(commit(3), applied(A, 2**64 - 1), commit(4, at(B, stage(LATER, 13)), at(C, stage(LATER, 14))))
    do(applied(B, 2**64 - 1), applied(C, 2**64 - 1), commit(5, at(A, stage(LATER, 15), stage(LATER, 16))))
    first = do.machine.op
    do(commit(6, at(A, stage(LATER, 17))))
    assert do.status(commit(7, at(A, stage(LATER, 18)))) == Status.TOO_MANY_STAGES
    do(applied(A, first), commit(7, at(A, stage(LATER, 18), stage(LATER, 19))))
    assert do.status(commit(8, at(A, stage(LATER, 20)))) == Status.TOO_MANY_STAGES


def test_no_more_is_given_up_than_can_be_remembered(do, monkeypatch):
    monkeypatch.setattr(transactions, "STAGES_ABORTED_MAX", 2)
    do(abort(1, at(A, stage(2_000_000), stage(LATER))))
    assert do.status(abort(1, at(B, stage(LATER, 1)))) == Status.TOO_MANY_STAGES
    do(abort(1, at(A, stage(LATER)), at(B, stage(1))))
    do.now = LATER
    do(pulse(), abort(1, at(B, stage(LATER * 2))))


def test_no_more_transactions_than_can_be_remembered(do, monkeypatch):
    monkeypatch.setattr(transactions, "TRANSACTIONS_PER_STREAM_MAX", 2)
    monkeypatch.setattr(transactions, "TRANSACTIONS_MAX", 3)
    do(create_stream("other"), commit(1, name="a"), commit(1, name="b"))
    committed_at = do.now
    assert do.status(commit(1, name="c")) == Status.TOO_MANY_TRANSACTIONS
    do(commit(2, name="a"), commit(1, name="c", stream_id=1))
    assert do.status(commit(1, name="d", stream_id=1)) == Status.TOO_MANY_TRANSACTIONS
    # The least recently used transaction is evicted.
    do.now = committed_at + TRANSACTION_KEPT_SECONDS_MIN * 1_000_000 - 2
    assert do.status(commit(1, name="c")) == Status.TOO_MANY_TRANSACTIONS
    do(commit(1, name="c"))
    assert do.last("b") is None
    assert (do.last("a").batch_id, do.last("c").batch_id) == (2, 1)
    do(delete_transaction("a"), commit(1, name="d"))
    assert do.machine.state.transactions.count == 3


def test_metrics(do):
    do(commit(1, at(A, stage(LATER), stage(LATER, 1)), at(B, stage(LATER, 2))), abort(2, at(A, stage(LATER, 3))))
    metrics = AppliedState(do.machine).metrics()
    assert metrics == {
        "pending_publications": 2,
        "pending_stages": 3,
        "aborted_stages": 1,
        "transactions": 1,
        "reader_pins": 0,
        "reader_pins_bytes": 0,
    }


def test_a_transaction_belongs_to_the_user_who_committed_first(do):
    """Snapshots keep its owner. Another user neither fences its writer nor goes on in its place."""
    _, ann, bob = (do(create_user(name)).reply.user.id for name in ("root", "ann", "bob"))
    own = {"is_owned": True, "own_only": True}
    do(commit(1, actor=ann, **own))
    do.machine = StateMachine.restore(StateSnapshot.FromString(do.machine.snapshot().SerializeToString()))
    for fence in (False, True):
        assert do.status(commit(2, actor=bob, fence=fence, **own)) == Status.UNAUTHORIZED
        assert do.status(commit(2, query_id="other", actor=bob, fence=fence, **own)) == Status.UNAUTHORIZED
        assert do.status(commit(1, actor=bob, fence=fence, **own)) == Status.UNAUTHORIZED
    do(commit(2, query_id="manager", fence=True, actor=bob, is_owned=True))
    assert do.last().owner_user_id == ann
    do(
        commit(2, fence=True, actor=ann, **own),
        Command(delete_user=DeleteUser(user_id=ann)),
        commit(3, actor=bob, **own),
    )
    assert do.last().owner_user_id == bob


def test_a_transaction_of_an_earlier_gateway_belongs_to_the_user_who_commits_next(do):
    ann, bob = (do(create_user(name)).reply.user.id for name in ("ann", "bob"))
    do(commit(1, actor=ann))
    assert not do.last().HasField("owner_user_id")
    do(commit(2, actor=bob, is_owned=True, own_only=True))
    assert do.status(commit(3, actor=ann, is_owned=True, own_only=True)) == Status.UNAUTHORIZED


def test_a_user_has_half_of_the_transactions(do, monkeypatch):
    monkeypatch.setattr(transactions, "TRANSACTIONS_PER_STREAM_MAX", 4)
    ann, bob = (do(create_user(name)).reply.user.id for name in ("ann", "bob"))
    do(commit(1, name="bob's", actor=bob, is_owned=True))
    do(*(commit(1, name=name, actor=ann, is_owned=True) for name in ("a", "b")))
    assert do.status(commit(1, name="c", actor=ann, is_owned=True)) == Status.TOO_MANY_TRANSACTIONS
    do(commit(1, name="d", actor=bob, is_owned=True))
    do.now += TRANSACTION_KEPT_SECONDS_MIN * 1_000_000
    do(commit(1, name="c", actor=ann, is_owned=True))
    assert do.last("a") is None, "their own"
    assert do.last("bob's") is not None
