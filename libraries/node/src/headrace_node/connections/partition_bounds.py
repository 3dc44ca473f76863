"""First and next offsets of partitions, as currently known to their shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import headrace_core as core
from headrace_chassis.grpc.status import Refused
from headrace_node.connections.sessions import Session
from headrace_proto.errors import Status

Place = tuple[int, int, int]
"""Stream, topic and partition."""


class Ends(NamedTuple):
    """First and next offset of a partition."""

    incarnation: int
    purge_epoch: int
    first_offset: int
    next_offset: int
    openings: Sequence[Mapping[str, int]]
    """Number and end of each opening of the log, ascending, as fields of messages."""


async def ends_of(session: Session, topics: Sequence[tuple[int, int, Sequence[int]]]) -> dict[Place, Ends]:
    """Return the first and next offsets of partitions.

    Args:
        session: Must not be used otherwise, now or later: it continues to receive notifications.
        topics: Stream, topic and partitions of each topic, none twice.

    Raises:
        Refused: A partition does not exist, or the user of the session may not read it.
        SessionLost: No answer came.
    """
    wanted_count = sum(len(partitions) for _, _, partitions in topics)
    ends: dict[Place, Ends] = {}
    if wanted_count == 0:
        return ends
    # The state of each watched partition is reported at once.
    status, _ = await session.call(*core.encode_watch_partitions(topics=topics, names_openings=True))
    _check(status)
    while len(ends) < wanted_count:
        status, payload = await session.receive()
        _check(status)
        for state in core.decode_watched_partitions(payload, names_openings=True):
            _check(state.status)
            place = (state.stream_id, state.topic_id, state.partition_id)
            openings = [{"epoch": epoch, "end_offset": end} for epoch, end in state.openings]
            ends[place] = Ends(state.incarnation, state.purge_epoch, state.first_offset, state.next_offset, openings)
    return ends


def _check(status: int) -> None:
    if status != Status.OK:
        raise Refused(status)
