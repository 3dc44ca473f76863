"""First and next offsets of partitions, as currently known to their shards."""

from __future__ import annotations

from collections.abc import Sequence
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
