"""Notices from the shards to the metadata service."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NoReturn

from headrace_metadata_client import MetadataClientError
from headrace_node import Publications
from headrace_partition_node.registration import Proposer
from headrace_proto.control.v1 import Reply, Request
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, CompletedRevocation, CompleteRevocation
from headrace_proto.well_known import ROOT_USER_ID

_RETRY_SECONDS: Final = 0.1
_RETRY_SECONDS_MAX: Final = 5.0
_WAITING_MAX: Final = 100_000

_log = logging.getLogger(__name__)

_Group = tuple[int, int, int, int]
"""Stream, topic, group, and incarnation of the group."""


class Notices:
    """Completed revocations: partitions whose owners in a consumer group have processed all messages they were sent.

    Each is reported until the metadata service has acknowledged it. An unreported partition moves at its deadline, so
    notices beyond a bound may be dropped.
    """

    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer
        # Ordered by arrival; a repeated notice keeps its position.
        self._waiting: dict[_Group, dict[int, CompletedRevocation]] = {}
        self._count = 0
        self._came = asyncio.Event()

    @property
    def waiting_count(self) -> int:
        """Number of partitions to report."""
        return self._count

    def revoked(self, notice: CompleteRevocation) -> None:
        """Queue a notice."""
        group = (notice.stream_id, notice.topic_id, notice.group_id, notice.group_key)
        partitions = self._waiting.setdefault(group, {})
        for revocation in notice.revocations:
            if revocation.partition_id not in partitions:
                if self._count >= _WAITING_MAX:
                    continue
                self._count += 1
            partitions[revocation.partition_id] = revocation
        self._came.set()

    async def run(self) -> NoReturn:
        """Report queued notices until cancelled."""
        pause_seconds = _RETRY_SECONDS
        while True:
            await self._came.wait()
            self._came.clear()
            while self._waiting:
                group, partitions = next(iter(self._waiting.items()))
                reported = {number: partitions[number] for number in sorted(partitions)}
                if await self._report(group, reported):
                    self._forget(group, reported)
                    pause_seconds = _RETRY_SECONDS
                else:
                    await asyncio.sleep(pause_seconds)
                    pause_seconds = min(2 * pause_seconds, _RETRY_SECONDS_MAX)

    async def _report(self, group: _Group, partitions: dict[int, CompletedRevocation]) -> bool:
        stream_id, topic_id, group_id, group_key = group
        command = CompleteRevocation(
            stream_id=stream_id,
            topic_id=topic_id,
            group_id=group_id,
            group_key=group_key,
            revocations=partitions.values(),
        )
        try:
            response = await self._proposer.propose(Command(actor_user_id=ROOT_USER_ID, complete_revocation=command))
        except MetadataClientError as error:
            _log.warning("movable group partitions were not reported to the metadata service: %s", error)
            return False
        if response.reply.status != Status.OK:
            # The group was deleted, including the ownership of its members.
            _log.debug(
                "movable group partitions were refused by the metadata service: status %d", response.reply.status
            )
        return True

    def _forget(self, group: _Group, reported: dict[int, CompletedRevocation]) -> None:
        waiting = self._waiting[group]
        for number, revocation in reported.items():
            # Keep the entry if another revocation of the same partition has arrived meanwhile.
            if waiting[number] == revocation:
                del waiting[number]
                self._count -= 1
        if not waiting:
            del self._waiting[group]


class Control:
    """Answers requests of the shards; requests that clients must not send to a partition node are refused."""

    def __init__(self, notices: Notices, publications: Publications) -> None:
        self._notices = notices
        self._publications = publications

    async def handle(self, request: Request) -> Reply:
        """Answer one request."""
        match request.WhichOneof("operation"):
            case "complete_revocation":
                self._notices.revoked(request.complete_revocation)
                return Reply()
            case "publications_applied":
                self._publications.applied(request.publications_applied)
                return Reply()
            case "client_gone" | "noted":
                # Members of groups are connections of gateways, which also write the audit trail.
                return Reply()
            case _:
                return Reply(status=Status.FEATURE_UNAVAILABLE)
