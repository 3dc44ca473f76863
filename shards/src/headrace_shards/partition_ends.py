"""Where partitions begin and end, as their shards know it at this moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import headrace_core as core
from headrace_proto.errors import Status
from headrace_shards.grpc_refusals import Refused
from headrace_shards.sessions import Session

Place = tuple[int, int, int]
"""Stream, topic and partition."""


class Ends(NamedTuple):
    """Where a partition begins and ends."""

    incarnation: int
    purge_epoch: int
    first_offset: int
    next_offset: int


async def ends_of(session: Session, topics: Sequence[tuple[int, int, Sequence[int]]]) -> dict[Place, Ends]:
    """Return where partitions begin and end.

    Args:
        session: Nobody else uses it, now or afterwards: it goes on to be told.
        topics: Stream, topic and partitions of each topic, none twice.

    Raises:
        Refused: One of them is not there, or may not be read by the user of the session.
        SessionLost: No answer came.
    """
    wanted_count = sum(len(partitions) for _, _, partitions in topics)
    ends: dict[Place, Ends] = {}
    if wanted_count == 0:
        return ends
    # Each that is watched is told at once.
    status, _ = await session.call(*core.encode_watch_partitions(topics=topics))
    _check(status)
    while len(ends) < wanted_count:
        status, payload = await session.receive()
        _check(status)
        for state in core.decode_watched_partitions(payload):
            _check(state.status)
            place = (state.stream_id, state.topic_id, state.partition_id)
            ends[place] = Ends(state.incarnation, state.purge_epoch, state.first_offset, state.next_offset)
    return ends


def _check(status: int) -> None:
    if status != Status.OK:
        raise Refused(status)
