"""Own encoding of batches in gRPC messages, compared with protobuf's."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from headrace_chassis.grpc.status import Refused
from headrace_partition_node.grpc.frames import Chunk, decoded, decoded_staged, encoded
from headrace_proto.errors import Status
from headrace_proto.partition.v1 import (
    AppendRequest,
    FetchResponse,
    Place,
    StageRequest,
)


async def test_refusals_have_reasons():
    assert str(Refused(Status.PARTITION_ELSEWHERE))
    assert str(Refused(424242)) == "status 424242"


numbers = st.integers(0, 2**64 - 1)


@given(st.binary(max_size=20_000), numbers, st.booleans(), numbers, numbers)
def test_responses_are_encoded_as_protobuf_has_them(polled, next_offset, done, count, digest):
    response = FetchResponse.FromString(encoded(Chunk(polled, next_offset, done, count, digest)))
    assert response == FetchResponse(
        polled=polled, next_offset=next_offset, done=done, messages_count=count, digest=digest
    )


def requests_of(kind, pieces):
    """Requests as encoded by protobuf, and variants: any bytes; fields in any order, repeated, unknown, truncated."""
    return st.one_of(
        st.builds(
            kind,
            place=st.one_of(st.none(), st.builds(Place, partition_id=st.integers(0, 2**32 - 1))),
            messages_count=st.integers(0, 2**32 - 1),
            batch=st.binary(max_size=20_000),
            **({"lifetime_seconds": st.integers(0, 2**32 - 1)} if kind is StageRequest else {}),
        ).map(kind.SerializeToString),
        st.binary(max_size=50),
        st.lists(st.sampled_from(pieces), max_size=6).map(b"".join),
    )


APPENDED = [b"\x0a\x02\x18\x05", b"\x10\x07", b"\x1a\x03abc", b"\x1a\x00", b"\x20\x01", b"\x2a\x01x", b"\x1a"]
STAGED = [
    b"\x0a\x02\x18\x05",
    b"\x10\x07",
    b"\x18\x09",
    b"\x22\x03abc",
    b"\x22\x00",
    b"\x2a\x01x",
    b"\x22",
    b"\x1a\x00",
]


@given(requests_of(AppendRequest, APPENDED))
def test_batches_to_append_are_decoded_as_protobuf_does(request):
    check_decoded(request, AppendRequest, decoded)


@given(requests_of(StageRequest, STAGED))
def test_batches_to_stage_are_decoded_as_protobuf_does(request):
    check_decoded(request, StageRequest, decoded_staged)


def check_decoded(request, kind, decode):
    try:
        expected = kind.FromString(request)
    except DecodeError:
        with pytest.raises(DecodeError):
            decode(request)
        return
    found = decode(request)
    assert (found.place, found.messages_count, found.lifetime_seconds) == (
        expected.place if expected.HasField("place") else None,
        expected.messages_count,
        expected.lifetime_seconds if kind is StageRequest else 0,
    )
    assert bytes(found.batch) == expected.batch
