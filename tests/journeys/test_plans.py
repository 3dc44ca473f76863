"""Ranges of messages that are split for readers who share them, by whichever gateway is asked (GW-8)."""

from __future__ import annotations

import headrace_core as core
from tests.compatibility.protocol.codes import Code, Status
from tests.journeys.conftest import At
from tests.journeys.deployment.api_clients import BinaryApi, Sent
from tests.journeys.deployment.place import Place

BATCHES, PAYLOAD_BYTES = 40, 10_000
HEADER_BYTES = 64


def test_parts_hold_what_they_are_said_to_hold(place: Place, root: BinaryApi, at: At, stream: str) -> None:
    """The same plan at every gateway: it covers the range, and its sizes are about those of the messages."""
    payload = b"x" * PAYLOAD_BYTES
    for _ in range(BATCHES):
        root.send(stream, *(Sent(payload) for _ in range(10)), partition=1)
    count = 10 * BATCHES
    for gateway in place.gateways:
        connection = at(BinaryApi, gateway).connection
        code, asked = core.encode_plan_range(
            stream=stream, topic="t", partition=1, start=10, end=count - 10, target_bytes=1_000_000
        )
        assert code == Code.PLAN_RANGE
        plan = core.decode_planned_range(connection.ok(code, asked))
        assert (plan.first_offset, plan.next_offset) == (0, count)
        starts, sizes = zip(*plan.splits, strict=True)
        assert starts[0] == 10
        ends = (*starts[1:], count - 10)
        assert len(starts) in {3, 4}
        for start, end, size in zip(starts, ends, sizes, strict=True):
            assert start < end
            assert abs((end - start) * (PAYLOAD_BYTES + HEADER_BYTES) - size) < 200_000, plan.splits
        empty = core.decode_planned_range(connection.ok(*core.encode_plan_range(stream=stream, topic="t", partition=0)))
        assert (empty.first_offset, empty.next_offset, empty.splits) == (0, 0, [])
        _, missing = core.encode_plan_range(stream=stream, topic="t", partition=99)
        assert connection.status(code, missing) == Status.PARTITION_NOT_FOUND
