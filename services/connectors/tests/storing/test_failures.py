"""Classes of failures, and what follows from each in a source and in the admission of its destinations (CON-13)."""

from __future__ import annotations

import asyncio

import pytest

from headrace.sdk import errors
from headrace_connectors.admission.breaker import BreakerState
from headrace_connectors.admission.table import AdmissionTable
from headrace_connectors.codecs.plain import RawCodec
from headrace_connectors.contract import (
    Batch,
    Cdc,
    ConnectorError,
    Destination,
    InvalidRecord,
    Opaque,
    Record,
    Settings,
    Source,
    StateVersionMismatch,
    Transform,
    Unavailable,
)
from headrace_connectors.counters import Counters
from headrace_connectors.failures import (
    FailureClass,
    LoginFailed,
    Refused,
    Undelivered,
    class_of,
    translated,
)
from headrace_connectors.pipeline_file.models import Admission, CircuitBreaker, DeliverySettings, SourceSettings
from headrace_connectors.runtime.source_loop import SourceLoop
from headrace_connectors.runtime.status import State, Status
from headrace_connectors.storing.delivery import Delivery
from headrace_connectors.storing.steps import AtLeastOnce, InDoubt

A, B = ("s", "a"), ("s", "b")
CLASSES = [
    (Unavailable("no server"), "transient"),
    (InDoubt("no answer"), "transient"),
    (errors.ConnectionFailed("no server"), "transient"),
    (errors.DeadlineExceeded("late"), "transient"),
    (errors.OutcomeUnknown("no answer"), "transient"),
    (errors.NotDelivered("late"), "transient"),
    (errors.BufferFull("full"), "transient"),
    (errors.ClientClosed("closed"), "transient"),
    (errors.NotFound("no topic"), "transient"),
    (errors.RequestRefused("elsewhere", retryable=True), "transient"),
    (errors.LoginRefused("the session has ended", retryable=True), "transient"),
    (InvalidRecord("no JSON"), "record"),
    (errors.InvalidArgument("too large"), "record"),
    (errors.RequestRefused("no"), "destination"),
    (errors.PermissionDenied("no"), "destination"),
    (errors.AlreadyExists("taken"), "destination"),
    (Refused("not in admission.allow"), "destination"),
    (errors.LoginRefused("no such user"), "connector"),
    (ConnectorError("the slot is gone"), "connector"),
    (StateVersionMismatch(2, 1), "connector"),
    (RuntimeError("a mistake"), "connector"),
]


@pytest.mark.parametrize(("error", "kind"), CLASSES, ids=lambda value: getattr(value, "__name__", repr(value)[:40]))
def test_a_failure_has_one_class(error, kind):
    """CON-72."""
    assert class_of(error) is FailureClass(kind)


def test_every_error_of_the_sdk_is_in_the_table():
    """CON-72: one that is added later needs its row above."""
    kinds, known = [errors.HeadraceError], set()
    while kinds:
        kind = kinds.pop()
        known.add(kind)
        kinds += kind.__subclasses__()
    listed = {type(error) for error, _ in CLASSES}
    missing = {kind for kind in known if kind.__module__ == errors.__name__} - listed - {errors.HeadraceError}
    assert not missing


@pytest.mark.parametrize(("error", "kind"), [one for one in CLASSES if isinstance(one[0], errors.HeadraceError)])
def test_the_failure_of_a_connector_has_the_place_and_the_class(error, kind):
    failure = translated(error, "s/a")
    assert str(failure).startswith(f"s/a: {error}")
    # A record that the server refuses is not known by its number: its batch waits, as for a destination.
    assert class_of(failure) == ("destination" if kind == "record" else kind)


class Producer:
    """Answers as listed for each destination, and with success otherwise."""

    def __init__(self, **failures):
        self.failures = failures
        self.sent = []

    async def send_groups(self, groups):
        self.sent += [(name, [message.payload for message in messages]) for name, messages in groups.items()]
        return {name: self.failures.get(name[1]) or [] for name in groups}


class Routed(Transform):
    """Leaves records where they say that they go."""

    is_routing = True

    def apply(self, record):
        return record


def delivery(producer, clock, mode=None, **settings):
    async def create(name):
        return 1

    table = AdmissionTable(Admission(), CircuitBreaker(cool_down="10 s"), create, clock)
    own = SourceSettings(plugin="x", **settings)
    return Delivery(own, mode or Cdc(), (Routed(),), RawCodec(Settings()), table, producer, Counters()), table


def of(name, payload=b"x", **more):
    return Record(payload, destination=Destination(*name, **more))


async def test_a_destination_that_is_refused_is_closed_at_once_and_tried_after_a_while():
    """CON-72: permission is denied for one topic; the others go on, and the text says what to do."""
    now = [0.0]
    producer = Producer(b=errors.PermissionDenied("no permission"))
    sending, table = delivery(producer, lambda: now[0])
    with pytest.raises(Unavailable, match=r"s/b: no permission; permit it to the user that \[server\] names"):
        await sending.deliver([of(A), of(B)])
    assert {one.name: one.breaker.state(now[0]) for one in table.destinations} == {
        A: BreakerState.CLOSED,
        B: BreakerState.OPEN,
    }
    with pytest.raises(Refused, match="permit it to the user"):
        await sending.deliver([of(B)])
    assert [name for name, _ in producer.sent] == [A, B]
    now[0], producer.failures = 11.0, {}
    assert await sending.deliver([of(B)]) == 1
    assert table.open_circuits_count == 0


@pytest.mark.parametrize("policy", [None, "drop"])
async def test_records_of_senders_are_not_dropped_while_a_circuit_is_open(policy):
    """CON-24: a webhook would answer 200 for them; only who chooses to drop them gets that."""
    producer = Producer(b=errors.PermissionDenied("no permission"))
    sending, table = delivery(producer, lambda: 0.0, Opaque(), admission={"on_admission_failure": policy})
    with pytest.raises(Undelivered, match="no permission"):
        await sending.deliver([of(B)])
    assert table.open_circuits_count == 1
    if policy is None:
        with pytest.raises(Undelivered, match=r"s/b keeps failing and is tried again later: s/b: no permission"):
            await sending.deliver([of(A), of(B)])
        assert [name for name, _ in producer.sent] == [B]
    else:
        assert await sending.deliver([of(A), of(B)]) == 1
        assert [name for name, _ in producer.sent] == [B, A]
    assert await sending.deliver([of(A)]) == 1


async def test_a_transient_failure_does_not_open_the_circuit_at_once():
    sending, table = delivery(Producer(b=errors.DeadlineExceeded("late")), lambda: 0.0)
    with pytest.raises(Unavailable) as caught:
        await sending.deliver([of(B)])
    assert class_of(caught.value) is FailureClass.TRANSIENT
    assert table.open_circuits_count == 0


async def test_of_several_failures_the_lasting_one_is_shown():
    producer = Producer(a=errors.DeadlineExceeded("late"), b=errors.PermissionDenied("no permission"))
    sending, _ = delivery(producer, lambda: 0.0)
    with pytest.raises(Unavailable, match=r"s/b: no permission.*and 1 more"):
        await sending.deliver([of(A), of(B)])


async def test_a_login_that_is_refused_ends_the_connector():
    sending, table = delivery(Producer(a=errors.LoginRefused("no such user")), lambda: 0.0)
    with pytest.raises(LoginFailed, match=r"correct username and password, or token, of \[server\]"):
        await sending.deliver([of(A)])
    assert table.open_circuits_count == 0


@pytest.mark.parametrize(
    ("record", "text"),
    [(of(A, bytes(64_000_001)), "would have 64000001 bytes"), (of(A, key=b"k" * 256), "256 bytes"),
     (of(A, key=b""), "0 bytes")],
    ids=["payload", "long key", "empty key"],
)  # fmt: skip
@pytest.mark.parametrize("policy", ["drop", "error"])
async def test_a_record_that_no_server_accepts_is_invalid(record, text, policy):
    """CON-72: the other records of its batch are sent, or all of them wait with the reason in the status."""
    producer = Producer()
    sending, _ = delivery(producer, lambda: 0.0, admission={"on_admission_failure": policy})
    if policy == "error":
        with pytest.raises(InvalidRecord, match=text):
            await sending.deliver([of(A, b"1"), record, of(A, b"2")])
    else:
        assert await sending.deliver([of(A, b"1"), record, of(A, b"2")]) == 2
        assert producer.sent == [(A, [b"1", b"2"])]


class Endless(Source):
    def mode(self):
        return Cdc()

    async def poll(self):
        await asyncio.sleep(0)
        return Batch([of(A)], b"1")

    async def commit(self):
        """Forget it."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("error", "code"),
    [(errors.PermissionDenied("no permission"), "refused_by_server"), (errors.InvalidArgument("headers"), None)],
)
async def test_a_lasting_failure_degrades_the_source_at_once(error, code):
    """CON-72: not after 16 attempts, and with what has to be done; it goes on when that is done."""
    producer = Producer(a=error)
    sending, _ = delivery(producer, asyncio.get_running_loop().time, circuit_breaker={"cool_down": "1 ms"})
    states = asyncio.Queue()
    status = Status(on_change=states.put_nowait)
    settings = DeliverySettings(backoff_min="1 ms", backoff_max="2 ms", commit_failure_threshold=1_000_000)
    loop = SourceLoop("a", Endless(), settings, status)

    async def save(state):
        del state

    async def recover():
        return None

    task = asyncio.create_task(loop.run(AtLeastOnce(sending, save, recover)))
    try:
        async with asyncio.timeout(30):
            assert (await states.get()).state is State.RUNNING
            degraded = await states.get()
            assert degraded.state is State.DEGRADED
            assert str(error) in degraded.reason
            assert code is None or status.error_code in (code, "not_admitted")
            producer.failures = {}
            assert (await states.get()).state is State.RUNNING
    finally:
        loop.stop()
        await asyncio.wait({task})
