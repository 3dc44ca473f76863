"""What the native module offers a replica, and the document that configures it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from headrace_metadata.config import ClusterSettings, StateSettings, TlsSettings

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
"""What a native replica has to tell, in order; the stub of `headrace_core` says what each means."""

SessionQuestion: TypeAlias = tuple[int, int, int, Literal["open", "propose", "close"], int, bytes]
"""What is asked of a session: client, session, number, what, and the command with its release, packed."""


class NativeReplica(Protocol):
    """`headrace_core.MetadataReplica`: journal, superblock, peers and clock on a thread of its own.

    Methods but `start` and `stop` return at once.
    """

    def start(self) -> dict[str, str]:
        """Lock, open and recover the folder, listen to the peers, start the thread; returns what there is to tell."""

    def fileno(self) -> int:
        """A descriptor that is readable while events wait."""

    def take(self) -> list[ReplicaEvent]:
        """Events since the last call, oldest first."""

    def propose_many(self, commands: list[bytes], since: list[int]) -> list[int]:
        """Have commands ordered, replicated and applied; returns their tickets. Each comes with its release, packed."""

    def request_many(self, requests: list[SessionQuestion]) -> list[int]:
        """Have requests of sessions executed, each at most once; returns their tickets."""

    def read_index(self) -> int:
        """Ask for the op that a linearizable read has to see; returns the ticket of the `read` event."""

    def applied(self, op: int, replies: list[bytes]) -> None:
        """Answer an `apply`."""

    def checkpoint(self, op: int, state: bytes) -> None:
        """Answer a `checkpoint`."""

    def restored(self, op: int) -> None:
        """Answer a `restore`."""

    def abdicate(self) -> None:
        """If primary: have the others choose another one."""

    def renew_certificates(self) -> bool:
        """Look at the certificate files; whether others are used for connections with peers from now on."""

    def status_json(self) -> str:
        """View, primary, ops, journal, peers and counters as JSON."""

    def stop(self, timeout_seconds: float = ...) -> bool:
        """Make durable what was written, end the thread and release the folder; whether that was in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDescription:
    """What a native replica is told."""

    folder: Path
    """Of this replica alone."""
    cluster: ClusterSettings
    state: StateSettings
    tls: TlsSettings

    def document(self) -> str:
        """The JSON document that `headrace_core.MetadataReplica` takes."""
        files = self.tls.files
        alone = len(self.cluster.members) == 1
        return json.dumps(
            {
                "folder": str(self.folder),
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
