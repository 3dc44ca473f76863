"""Records of the native module show their contents when they are printed."""

import types

import pytest
from tests.compatibility.protocol import frames

import headrace_core as core

RECORDS = [
    kind
    for name, kind in vars(core).items()
    if isinstance(kind, type) and not name.startswith("_") and not issubclass(kind, Exception)
    if (members := [value for attribute, value in vars(kind).items() if not attribute.startswith("_")])
    and all(isinstance(value, types.GetSetDescriptorType | types.MemberDescriptorType) for value in members)
]
"""Classes that only have attributes to read."""


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_records_have_a_text_of_their_own(kind: type) -> None:
    assert kind.__repr__ is not object.__repr__


def test_a_transaction_shows_its_commit() -> None:
    found = core.decode_transaction(frames.name("q") + frames.u64(9) + frames.u64(3) + frames.u64(7))
    assert repr(found) == "Transaction(query_id='q', batch_id=9, number=3, committed_at=7)"


def test_permissions_show_the_rights_that_they_grant() -> None:
    topics = {4: core.TopicPermissions(read_topic=True)}
    streams = {3: core.StreamPermissions(manage_stream=True, topics=topics)}
    permissions = core.Permissions(everywhere=core.GlobalPermissions(read_users=True), streams=streams)
    assert repr(permissions) == (
        "Permissions(everywhere=GlobalPermissions(read_users=True), "
        "streams={3: StreamPermissions(manage_stream=True, topics={4: TopicPermissions(read_topic=True)})})"
    )


def test_a_ticket_keeps_its_text() -> None:
    issued = core.decode_issued_ticket(frames.u32(6) + b"secret" + frames.u64(5))
    assert repr(issued) == "IssuedTicket(not_after=5)"
