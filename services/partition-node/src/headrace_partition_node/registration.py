"""Registration of this node in the cluster: registered at the start, renewed by heartbeats."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from typing import Final, NoReturn, Protocol

from headrace_metadata_client import MetadataClientError, UnauthenticatedError
from headrace_partition_node.errors import NodeRemoved, NodeReplaced, RegistrationRefused
from headrace_proto.catalog.v1 import Node
from headrace_proto.errors import Status, find
from headrace_proto.metadata.v1 import Command, ProposeResponse, RegisterNode, RenewNodeLease
from headrace_proto.well_known import ROOT_USER_ID

# Two renewals may be late before the lease expires.
_RENEWALS_PER_LEASE: Final = 3
_RETRY_SECONDS: Final = 0.2
_RETRY_SECONDS_MAX: Final = 5.0

_log = logging.getLogger(__name__)


class Proposer(Protocol):
    """Interface of `headrace_metadata_client.Session`."""

    async def propose(self, command: Command, *, timeout_seconds: float = ...) -> ProposeResponse:
        """Apply a command at most once."""


class Registration:
    """The registration of one run of this node."""

    def __init__(
        self, proposer: Proposer, *, name: str, lease_seconds: float, known: Callable[[int, int], None]
    ) -> None:
        """Describe a run.

        Args:
            proposer: Proposes the commands.
            name: Name of the node, the same in every run.
            lease_seconds: Time without a renewal after which the node counts as silent.
            known: Called with a catalog version in which this run is registered, and the timestamp of its newest
                operation
                (microseconds since the Unix epoch).
        """
        self._proposer = proposer
        self._name = name
        self._lease_seconds = lease_seconds
        self._known = known
        self._node: Node | None = None
        self._renewed_at: float | None = None
        self.incarnation: Final = secrets.randbits(63) + 1

    @property
    def node(self) -> Node | None:
        """Record of the registered node; None before the registration."""
        return self._node

    @property
    def age_seconds(self) -> float:
        """Seconds since the last successful renewal; infinite before the registration."""
        return time.monotonic() - self._renewed_at if self._renewed_at is not None else float("inf")

    async def register(self, *, binary_address: str, grpc_address: str, shards_count: int) -> Node:
        """Register this run; waits for the metadata service if necessary.

        Args:
            binary_address: Address of the binary protocol for others.
            grpc_address: Address of gRPC for others.
            shards_count: Number of shards, the capacity of the node.

        Raises:
            RegistrationRefused: The cluster refuses this node.
            UnauthenticatedError: The metadata service does not accept the caller.
        """
        command = RegisterNode(
            name=self._name,
            incarnation=self.incarnation,
            binary_address=binary_address,
            grpc_address=grpc_address,
            shards=shards_count,
            lease_micros=int(self._lease_seconds * 1_000_000),
        )
        pause_seconds = _RETRY_SECONDS
        while True:
            # Retrying is idempotent: it registers the same run.
            response = await self._attempt(Command(actor_user_id=ROOT_USER_ID, register_node=command))
            if response is not None:
                break
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _RETRY_SECONDS_MAX)
        status = response.reply.status
        if status != Status.OK:
            raise RegistrationRefused(f"the cluster refused node {self._name!r}: {_meaning(status)}")
        self._node = response.reply.node
        _log.info("registered as node %d (%s), incarnation %d", self._node.id, self._name, self.incarnation)
        return self._node

    async def keep(self, node: Node) -> NoReturn:
        """Renew the lease until cancelled. While the metadata service is unavailable, the node continues without.

        Args:
            node: Record of the registered node.

        Raises:
            NodeReplaced: A later run has registered.
            NodeRemoved: The node was removed.
            RegistrationRefused: The renewal was refused for another reason.
        """
        renewal = RenewNodeLease(node_id=node.id, incarnation=self.incarnation)
        interval_seconds = self._lease_seconds / _RENEWALS_PER_LEASE
        while True:
            await asyncio.sleep(interval_seconds)
            try:
                response = await self._attempt(Command(actor_user_id=ROOT_USER_ID, renew_node_lease=renewal))
            except UnauthenticatedError as error:
                # The node was accepted before: a change of the secret is in progress, and the partitions are still
                # needed.
                _log.error("the metadata service no longer accepts this node: %s", error)
                continue
            if response is None:
                continue
            match response.reply.status:
                case Status.OK:
                    pass
                case Status.NODE_REPLACED:
                    raise NodeReplaced(
                        f"a later run of node {self._name!r} has registered; this one stops. Two processes with "
                        "the same node.name cannot both be in the cluster"
                    )
                case Status.NODE_NOT_FOUND:
                    raise NodeRemoved(f"node {self._name!r} (id {node.id}) was removed from the cluster")
                case status:
                    raise RegistrationRefused(f"the lease of node {self._name!r} is not renewed: {_meaning(status)}")

    async def _attempt(self, command: Command) -> ProposeResponse | None:
        try:
            response = await self._proposer.propose(command, timeout_seconds=self._lease_seconds)
        except UnauthenticatedError:
            raise
        except MetadataClientError as error:
            _log.warning("the metadata service did not answer (%s): %s", command.WhichOneof("operation"), error)
            return None
        self._renewed_at = time.monotonic()
        self._known(response.version, response.timestamp_micros)
        return response


def _meaning(status: int) -> str:
    info = find(status)
    return f"{info.description} ({info.name}, {status})" if info is not None else f"status {status}"
