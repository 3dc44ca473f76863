"""Commands on the pinned reader positions of a stream.

Statuses in the order in which they are checked: pin 4, 20308, 1009, 41, 20309; unpin 1009, 41.
"""

from __future__ import annotations

from headrace_metadata.state_machine.context import CommandContext, Refused
from headrace_metadata.state_machine.names import check_name
from headrace_metadata.state_machine.state import State
from headrace_proto.errors import Status
from headrace_proto.limits import PIN_SIZE_BYTES_MAX, PINS_PER_STREAM_MAX, PINS_SIZE_BYTES_MAX
from headrace_proto.metadata.v1 import PinReader, PinResult, ReaderPin, Reply, UnpinReader


def pin(state: State, context: CommandContext, command: PinReader) -> Reply:
    """Pin a position for a reader, unless one is pinned already; the reply contains the pinned position."""
    check_name(command.name)
    if len(command.value) > PIN_SIZE_BYTES_MAX:
        raise Refused(Status.PIN_TOO_LARGE)
    stream = state.catalog.stream(command.stream_id)
    known = state.pins.find(stream.id, command.name)
    if known is not None:
        _check_owner(context, command, known)
        return Reply(pin_result=PinResult(was_there=True, pin=known))
    owner_user_id = context.actor_user_id if command.is_owned else None
    _check_space(state, stream.id, owner_user_id, len(command.value))

    new = ReaderPin(
        stream_id=stream.id,
        name=command.name,
        value=command.value,
        pinned_at_micros=context.timestamp_micros,
        owner_user_id=owner_user_id,
    )
    state.pins.add(new)
    return Reply(pin_result=PinResult(was_there=False, pin=new))


def unpin(state: State, context: CommandContext, command: UnpinReader) -> Reply:
    """Remove the pin of a reader, if any."""
    stream = state.catalog.stream(command.stream_id)
    known = state.pins.find(stream.id, command.name)
    if known is not None:
        _check_owner(context, command, known)
    state.pins.remove(stream.id, command.name)
    return Reply()


def _check_owner(context: CommandContext, command: PinReader | UnpinReader, pin: ReaderPin) -> None:
    """Refuse the pin of another user: who could replace it would choose what that user's readers read."""
    if command.own_only and pin.HasField("owner_user_id") and pin.owner_user_id != context.actor_user_id:
        raise Refused(Status.UNAUTHORIZED)


def _check_space(state: State, stream_id: int, owner_user_id: int | None, size_bytes: int) -> None:
    pins = state.pins
    counts = [(pins.count_of(stream_id), pins.size_bytes, 1)]
    if owner_user_id is not None:
        counts.append((pins.count_of_owner(stream_id, owner_user_id), pins.size_bytes_of(owner_user_id), 2))
    for count, held_bytes, divisor in counts:
        if count >= PINS_PER_STREAM_MAX // divisor or held_bytes + size_bytes > PINS_SIZE_BYTES_MAX // divisor:
            raise Refused(Status.TOO_MANY_PINS)
