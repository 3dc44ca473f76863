"""Interface of the native replica, and its configuration document."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from headrace_metadata.config import ClusterSettings, ReplicaTlsSettings, StateSettings

ReplicaEvent: TypeAlias = (
    tuple[Literal["restore"], int, bytes]
    | tuple[Literal["apply"], int, int, list[tuple[int, bytes]]]
    | tuple[Literal["checkpoint"], int]
    | tuple[Literal["answered"], int, int, bytes]
    | tuple[Literal["refused"], int, str, int]
    | tuple[Literal["read"], int, int]
    | tuple[Literal["role"], str, int, int]
    | tuple[Literal["log"], str, str]
    | tuple[Literal["stopped"], str]
)
"""Events of a native replica, in order; documented in the type stub of `headrace_core`."""

SessionQuestion: TypeAlias = tuple[int, int, int, Literal["open", "propose", "close"], int, bytes]
"""Session request: client, session, number, kind, and the command with its packed release."""


class NativeReplica(Protocol):
    """`headrace_core.MetadataReplica`: journal, superblock, peers and clock on a thread of its own.

    Methods but `start` and `stop` return at once.
    """

    def start(self) -> dict[str, str]:
        """Lock and recover the data directory, listen to peers, start the thread; return messages for the log."""

    def fileno(self) -> int:
        """A descriptor that is readable while events wait."""

    def take(self) -> list[ReplicaEvent]:
        """Return the events since the last call, oldest first."""

    def propose_many(self, commands: list[bytes], since: list[int]) -> list[int]:
        """Order, replicate and apply commands, each with its packed release; return their request ids."""

    def request_many(self, requests: list[SessionQuestion]) -> list[int]:
        """Execute session requests at most once each; return their request ids."""

    def read_index(self) -> int:
        """Request the op that a linearizable read has to wait for; return the request id of the `read` event."""

    def applied(self, op: int, replies: list[bytes]) -> None:
        """Answer an `apply`."""

    def checkpoint(self, op: int, state: bytes) -> None:
        """Answer a `checkpoint`."""

    def restored(self, op: int) -> None:
        """Answer a `restore`."""

    def abdicate(self) -> None:
        """Make the replicas choose another primary, if this one is the primary."""

    def renew_certificates(self) -> bool:
        """Check the certificate files; return whether new ones are used for connections with peers from now on."""

    def status_json(self) -> str:
        """Return view, primary, ops, journal, peers and counters as JSON."""

    def stop(self, timeout_seconds: float = ...) -> bool:
        """Sync, end the thread, release the data directory; return whether this finished before the timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDescription:
    """Configuration of a native replica."""

    directory: Path
    """Data directory of this replica alone."""
    cluster: ClusterSettings
    state: StateSettings
    tls: ReplicaTlsSettings

    def document(self) -> str:
        """Return the JSON document that `headrace_core.MetadataReplica` takes."""
        files = self.tls.peer_files
        alone = len(self.cluster.members) == 1
        return json.dumps(
            {
                "directory": str(self.directory),
                "cluster": self.cluster.name,
                "replica": self.cluster.replica,
                "replicas": [""] if alone else list(self.cluster.members),
                "listen": None if alone or self.cluster.listen is None else str(self.cluster.listen),
                "secret": self.cluster.secret.reveal() if self.cluster.secret is not None else "",
                "accepted_secret": (
                    self.cluster.accepted_secret.reveal() if self.cluster.accepted_secret is not None else ""
                ),
                "tls": dict(zip(("certificate", "key", "authority"), files, strict=True)) if files else None,
                "timeouts": self.cluster.timeouts,
                "given_up": list(self.cluster.given_up),
                "sync": self.state.enforce_fsync or not alone,
                "checkpoint_ops": self.state.snapshot_commands,
                "checkpoint_bytes": self.state.snapshot_journal_size.bytes,
            }
        )
