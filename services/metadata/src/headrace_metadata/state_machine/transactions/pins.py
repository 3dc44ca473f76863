"""Commands on the pinned reader positions of a stream.

Statuses in the order in which they are checked: pin 4, 20308, 1009, 20309; unpin 1009.
"""

from __future__ import annotations

from headrace_metadata.state_machine.names import check_name
from headrace_metadata.state_machine.operation import Operation, Refused
from headrace_metadata.state_machine.state import State
from headrace_proto.errors import Status
from headrace_proto.limits import PIN_SIZE_BYTES_MAX, PINS_PER_STREAM_MAX, PINS_SIZE_BYTES_MAX
from headrace_proto.metadata.v1 import PinReader, PinResult, ReaderPin, Reply, UnpinReader


def pin(state: State, operation: Operation, command: PinReader) -> Reply:
    """Pin a position for a reader, unless one is pinned already; the reply contains the pinned position."""
    check_name(command.name)
    if len(command.value) > PIN_SIZE_BYTES_MAX:
        raise Refused(Status.PIN_TOO_LARGE)
    stream = state.catalog.stream(command.stream_id)
    known = state.pins.find(stream.id, command.name)
    if known is not None:
        return Reply(pin_result=PinResult(was_there=True, pin=known))
    too_many = state.pins.count_of(stream.id) >= PINS_PER_STREAM_MAX
    if too_many or state.pins.size_bytes + len(command.value) > PINS_SIZE_BYTES_MAX:
        raise Refused(Status.TOO_MANY_PINS)

    new = ReaderPin(
        stream_id=stream.id, name=command.name, value=command.value, pinned_at_micros=operation.timestamp_micros
    )
    state.pins.add(new)
    return Reply(pin_result=PinResult(was_there=False, pin=new))


def unpin(state: State, command: UnpinReader) -> Reply:
    """Remove the pin of a reader, if any."""
    stream = state.catalog.stream(command.stream_id)
    state.pins.remove(stream.id, command.name)
    return Reply()
