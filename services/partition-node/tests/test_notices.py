"""Delivery of the shards' notices to the metadata service despite failures."""

import asyncio

from headrace_metadata_client import CommandNotTakenError, OutcomeUnknownError
from headrace_node import Publications
from headrace_partition_node import notices as module
from headrace_partition_node.notices import Control, Notices
from headrace_proto.control.v1 import ClientGone, LoginWithPassword, Request
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    AppliedPublications,
    CompletedRevocation,
    CompleteRevocation,
    ProposeResponse,
    PublicationsApplied,
    Reply,
)


def notice(group, *partitions):
    revocations = [
        CompletedRevocation(partition_id=number, incarnation=incarnation) for number, incarnation in partitions
    ]
    return CompleteRevocation(stream_id=1, topic_id=2, group_id=group, group_key=group, revocations=revocations)


class Metadata:
    def __init__(self):
        self.heard = []
        self.failures = []
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.status = Status.OK

    async def propose(self, command, *, timeout_seconds=10.0):
        self.asked.set()
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        reported = command.complete_revocation
        self.heard.append((reported.group_id, [(one.partition_id, one.incarnation) for one in reported.revocations]))
        return ProposeResponse(reply=Reply(status=self.status))


async def reported(notices):
    task = asyncio.create_task(notices.run())
    async with asyncio.timeout(10):
        while notices.waiting_count:
            await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait({task})


async def test_what_belongs_together_is_reported_together():
    metadata = Metadata()
    notices = Notices(metadata)
    for one in (notice(1, (3, 30)), notice(2, (1, 10)), notice(1, (0, 5), (3, 30))):
        notices.revoked(one)
    assert notices.waiting_count == 3
    await reported(notices)
    assert metadata.heard == [(1, [(0, 5), (3, 30)]), (2, [(1, 10)])]


async def test_it_is_reported_until_it_is_heard(monkeypatch):
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.001)
    metadata = Metadata()
    metadata.failures = [
        CommandNotTakenError("nobody"),
        OutcomeUnknownError("who knows"),
        CommandNotTakenError("nobody"),
    ]
    notices = Notices(metadata)
    notices.revoked(notice(1, (3, 30)))
    await reported(notices)
    assert metadata.heard == [(1, [(3, 30)])]


async def test_a_group_that_is_gone_is_reported_once():
    metadata = Metadata()
    metadata.status = Status.CONSUMER_GROUP_ID_NOT_FOUND
    notices = Notices(metadata)
    notices.revoked(notice(1, (3, 30)))
    await reported(notices)
    assert len(metadata.heard) == 1


async def test_a_later_revocation_that_comes_meanwhile_is_reported_too():
    metadata = Metadata()
    metadata.gate.clear()
    notices = Notices(metadata)
    notices.revoked(notice(1, (3, 30)))
    task = asyncio.create_task(notices.run())
    await metadata.asked.wait()
    notices.revoked(notice(1, (3, 31)))
    metadata.gate.set()
    await reported(notices)
    task.cancel()
    await asyncio.wait({task})
    assert metadata.heard[0] == (1, [(3, 30)])
    assert (1, [(3, 31)]) in metadata.heard


async def test_there_is_a_bound(monkeypatch):
    monkeypatch.setattr(module, "_WAITING_MAX", 10)
    metadata = Metadata()
    notices = Notices(metadata)
    notices.revoked(notice(1, *((number, 1) for number in range(100))))
    assert notices.waiting_count == 10
    await reported(notices)


async def test_shards_are_answered():
    metadata = Metadata()
    notices = Notices(metadata)
    publications = Publications(metadata.propose)
    control = Control(notices, publications)
    appended = PublicationsApplied(partitions=[AppliedPublications(partition_id=3, number=7)])
    assert (await control.handle(Request(publications_applied=appended))).status == Status.OK
    assert publications.waiting_count == 1
    assert (await control.handle(Request(complete_revocation=notice(1, (3, 30))))).status == Status.OK
    assert (await control.handle(Request(client_gone=ClientGone()))).status == Status.OK
    login = Request(login_with_password=LoginWithPassword(username="root", password=b"x"))
    assert (await control.handle(login)).status == Status.FEATURE_UNAVAILABLE
    assert notices.waiting_count == 1
