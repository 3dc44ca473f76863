"""Reader pins: the first pin wins."""

import pytest
from metadata_commands import create_stream, delete_stream
from metadata_driver import Driver
from transaction_commands import pin, unpin

from headrace_metadata.state_machine import StateMachine
from headrace_metadata.state_machine.transactions import pins
from headrace_proto.errors import Status
from headrace_proto.limits import PIN_SIZE_BYTES_MAX
from headrace_proto.metadata.v1 import StateSnapshot


@pytest.fixture
def do():
    driver = Driver()
    driver(create_stream("s"), create_stream("other"))
    return driver


def pinned(do, *arguments):
    result = do(pin(*arguments)).reply.pin_result
    return result.was_there, result.pin.value


def test_the_first_one_decides(do):
    done = do(pin("r", b"1"))
    # Pins are not part of the catalog updates.
    assert done.update is None
    assert done.reply.pin_result.pin.pinned_at_micros == do.now
    assert pinned(do, "r", b"2") == (True, b"1")
    assert pinned(do, "r", b"2", 1) == (False, b"2")
    assert pinned(do, "r2", b"") == (False, b"")
    again = StateMachine.restore(StateSnapshot.FromString(do.machine.snapshot().SerializeToString()))
    assert again.state.pins.size_bytes == do.machine.state.pins.size_bytes == 2
    do.machine = again
    assert pinned(do, "r", b"3") == (True, b"1")
    do(unpin("r"), unpin("r"))
    assert pinned(do, "r", b"3") == (False, b"3")


def test_pins_go_with_their_stream(do):
    do(pin("r", b"1"), pin("r2", b"22"), pin("r", b"1", 1), delete_stream(0), create_stream("s"))
    assert (do.machine.state.pins.count, do.machine.state.pins.size_bytes) == (1, 1)
    assert pinned(do, "r", b"3") == (False, b"3")


def test_refusals_in_their_order(do, monkeypatch):
    assert do.status(pin("", bytes(PIN_SIZE_BYTES_MAX + 1))) == Status.INVALID_FORMAT
    assert do.status(pin("r", bytes(PIN_SIZE_BYTES_MAX + 1), 9)) == Status.PIN_TOO_LARGE
    assert do.status(pin("r", b"", 9)) == Status.STREAM_ID_NOT_FOUND
    assert do.status(unpin("r", 9)) == Status.STREAM_ID_NOT_FOUND
    monkeypatch.setattr(pins, "PINS_PER_STREAM_MAX", 2)
    monkeypatch.setattr(pins, "PINS_SIZE_BYTES_MAX", PIN_SIZE_BYTES_MAX + 10)
    do(pin("a", bytes(PIN_SIZE_BYTES_MAX)), pin("b", b"1"))
    assert do.status(pin("c")) == Status.TOO_MANY_PINS
    assert do.status(pin("c", bytes(10), 1)) == Status.TOO_MANY_PINS
    do(pin("c", bytes(9), 1), pin("b", bytes(99)), unpin("b"), pin("c"))


def test_a_pin_belongs_to_the_user_who_made_it(do):
    """Snapshots keep its owner. A user who manages the stream may delete it."""
    do(pin("r", b"ann's", actor=0, is_owned=True, own_only=True))
    do.machine = StateMachine.restore(StateSnapshot.FromString(do.machine.snapshot().SerializeToString()))
    assert do.status(unpin("r", actor=5, own_only=True)) == Status.UNAUTHORIZED
    assert do.status(pin("r", b"POISON", actor=5, is_owned=True, own_only=True)) == Status.UNAUTHORIZED
    assert do(pin("r", b"2", actor=0, is_owned=True, own_only=True)).reply.pin_result.pin.value == b"ann's"
    assert do(pin("r", b"2", actor=5, is_owned=True)).reply.pin_result.pin.value == b"ann's"
    do(unpin("r", actor=5))
    assert do.machine.state.pins.find(0, "r") is None


def test_pins_of_earlier_gateways_belong_to_no_user(do):
    do(pin("r", b"1", actor=4))
    assert do(pin("r", b"2", actor=5, is_owned=True, own_only=True)).reply.pin_result.pin.value == b"1"
    do(unpin("r", actor=5, own_only=True))
    assert do.machine.state.pins.find(0, "r") is None


def test_a_user_has_half_of_the_space(do, monkeypatch):
    monkeypatch.setattr(pins, "PINS_PER_STREAM_MAX", 4)
    monkeypatch.setattr(pins, "PINS_SIZE_BYTES_MAX", 100)
    do(pin("a", bytes(30), actor=5, is_owned=True))
    assert do.status(pin("b", bytes(21), actor=5, is_owned=True)) == Status.TOO_MANY_PINS
    assert do.status(pin("b", bytes(21), 1, actor=5, is_owned=True)) == Status.TOO_MANY_PINS, "the space of all streams"
    do(pin("b", bytes(20), actor=5, is_owned=True), unpin("b", actor=5))
    do(pin("b", bytes(20), actor=5, is_owned=True))
    do.machine = StateMachine.restore(StateSnapshot.FromString(do.machine.snapshot().SerializeToString()))
    assert do.status(pin("c", actor=5, is_owned=True)) == Status.TOO_MANY_PINS, "half of those of a stream"
    do(pin("c", bytes(30), actor=6, is_owned=True))
    do(delete_stream(0), create_stream("s"), pin("d", bytes(50), actor=5, is_owned=True))
