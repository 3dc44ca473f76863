"""The ledger of a group: what the entries of its topic mean, as a step function.

The topic has one partition, so all processes read the same entries in the same order, and the same entries lead to the
same ledger everywhere. An entry says what its writer knew, and has no effect if the ledger has changed since: each of
them is a compare-and-set.

No clock is needed to agree. A process renews its leases by an entry, and counts them from the moment before it sent
it. Others declare it silent only when they have seen no newer renewal for the whole lease by clocks of their own; the
entry that says so names the renewal, and has no effect if there is a newer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.versions import FAMILIES, Family, LogChange, VersionLog

NO_FENCE: Final = -1
"""Fence of a connector that no process has ever run."""
FORMATS: Final = (1, 2)
"""Versions of snapshots that this release reads: 1 has no configurations."""
VERSIONS_MAX: Final = 100
"""Versions of one connector or mapping that are kept."""
VERSION_BYTES_MAX: Final = 256 << 10
"""Bytes of the definitions of these versions; the ones in effect are kept in any case."""


class Renewal(msgspec.Struct, tag="renewal", frozen=True):
    """A process is alive; the first one makes it a member."""

    member: str
    name: str
    """Name that is shown to people."""
    lease_seconds: float
    """Time without another renewal after which its connectors may be given to others."""
    connectors: tuple[str, ...]
    """Connectors that it can run."""


class LeaseExpired(msgspec.Struct, tag="silence", frozen=True):
    """A member has not renewed its leases in time, and loses them."""

    member: str
    renewed_at: int
    """Offset of the last renewal that is known."""


class Leaving(msgspec.Struct, tag="leaving", frozen=True):
    """A member has stopped its connectors, and ends."""

    member: str


class Claim(msgspec.Struct, tag="claim", frozen=True):
    """A member is to run a connector that no other runs. The offset of the entry is the fence of the lease."""

    member: str
    connector: str
    after: int
    """Fence of the last lease of the connector; `NO_FENCE` if there was none."""


class Release(msgspec.Struct, tag="release", frozen=True):
    """A member has stopped a connector, and gives it up."""

    member: str
    connector: str
    fence: int


class Saved(msgspec.Struct, tag="saved", frozen=True):
    """State of a source. It counts if its writer has the lease here, and no later state of it came first."""

    member: str
    connector: str
    fence: int
    plugin: str
    state: bytes
    number: int = 0
    """Number of the state among those of its writer, ascending; 0: of a release without numbers."""


class Configured(msgspec.Struct, tag="configured", frozen=True):
    """A change of the configuration of a connector or mapping. It counts if no other one came before it."""

    family: Family
    key: str
    after: int
    """Epoch of the versions that the writer knew; 0 if there were none."""
    change: bytes
    """The change as JSON: numbers of definitions may have any size."""


class Member(msgspec.Struct, frozen=True):
    """A process of the group."""

    renewal: Renewal
    renewed_at: int
    """Offset of its last renewal."""


class Lease(msgspec.Struct, frozen=True):
    """Lease of a connector, or the last one that there was."""

    owner: str | None
    """Member that runs it."""
    fence: int


class SavedState(msgspec.Struct, frozen=True):
    """State of a source."""

    plugin: str
    state: bytes
    fence: int = NO_FENCE
    """Fence of the lease under which it was saved."""
    number: int = 0


class Snapshot(msgspec.Struct, tag="snapshot", frozen=True):
    """The whole ledger, so that reading can begin here."""

    next_offset: int
    """Offset after the last entry that is part of it."""
    members: dict[str, Member]
    leases: dict[str, Lease]
    states: dict[str, SavedState]
    format: int = FORMATS[0]
    versions: dict[Family, list[bytes]] = {}
    """Versions of connectors and mappings, each log as JSON."""


Entry: TypeAlias = Renewal | LeaseExpired | Leaving | Claim | Release | Saved | Configured | Snapshot


class Ledger:
    """State of a group after the entries up to an offset."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.leases: dict[str, Lease] = {}
        self.states: dict[str, SavedState] = {}
        self.versions: dict[Family, dict[str, VersionLog]] = {family: {} for family in FAMILIES}
        self.next_offset = 0
        """Offset after the last entry that was applied."""

    def apply(self, offset: int, entry: Entry) -> bool:
        """Apply an entry; return False if it had no effect, because the ledger had changed before."""
        self.next_offset = offset + 1
        match entry:
            case Renewal():
                self.members[entry.member] = Member(entry, offset)
                return True
            case LeaseExpired():
                member = self.members.get(entry.member)
                return member is not None and member.renewed_at == entry.renewed_at and self._removed(entry.member)
            case Leaving():
                return self._removed(entry.member)
            case Claim():
                return self._claimed(offset, entry)
            case Release():
                if not self.has(entry.member, entry.connector, entry.fence):
                    return False
                self.leases[entry.connector] = Lease(None, entry.fence)
                return True
            case Saved():
                return self._saved(entry)
            case Configured():
                return self._configured(entry)
            case Snapshot():
                return True

    def has(self, member: str, connector: str, fence: int) -> bool:
        """Return True if the member has the lease of a connector with this fence."""
        return self.leases.get(connector) == Lease(member, fence)

    def held_by(self, member: str) -> Mapping[str, int]:
        """Return the connectors of a member, with the fences of their leases."""
        return {name: lease.fence for name, lease in self.leases.items() if lease.owner == member}

    def fence(self, connector: str) -> int:
        """Return the fence of the last lease of a connector."""
        lease = self.leases.get(connector)
        return NO_FENCE if lease is None else lease.fence

    def snapshot(self) -> Snapshot:
        """Return the ledger as an entry."""
        versions = {
            family: [msgspec.json.encode(log) for log in logs.values()]
            for family, logs in self.versions.items()
            if logs
        }
        return Snapshot(
            self.next_offset,
            dict(self.members),
            dict(self.leases),
            dict(self.states),
            FORMATS[1] if versions else FORMATS[0],
            versions,
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Continue after a snapshot.

        Raises:
            msgspec.MsgspecError: It is of another version.
        """
        self.members, self.leases, self.states = (
            dict(snapshot.members),
            dict(snapshot.leases),
            dict(snapshot.states),
        )
        for family in FAMILIES:
            logs = [msgspec.json.decode(one, type=VersionLog) for one in snapshot.versions.get(family, ())]
            self.versions[family] = {log.key: log for log in logs}
        self.next_offset = snapshot.next_offset

    def _configured(self, entry: Configured) -> bool:
        logs = self.versions[entry.family]
        log = logs.get(entry.key, VersionLog(entry.key))
        try:
            changed = log.after(_CHANGES.decode(entry.change)) if log.epoch == entry.after else None
        except NOT_JSON:
            # Of another release: all processes leave it out alike.
            return False
        if changed is None:
            return False
        logs[entry.key] = changed.bounded(VERSIONS_MAX, VERSION_BYTES_MAX)
        return True

    def _claimed(self, offset: int, claim: Claim) -> bool:
        lease = self.leases.get(claim.connector, Lease(None, NO_FENCE))
        # A member that was declared silent has to renew before it claims anything.
        if claim.member not in self.members or lease.owner is not None or lease.fence != claim.after:
            return False
        self.leases[claim.connector] = Lease(claim.member, offset)
        return True

    def _saved(self, entry: Saved) -> bool:
        if not self.has(entry.member, entry.connector, entry.fence):
            return False
        before = self.states.get(entry.connector)
        if before is not None and before.fence == entry.fence and 0 < entry.number <= before.number:
            # Its writer has given up waiting for it, and has saved another one since.
            return False
        self.states[entry.connector] = SavedState(entry.plugin, entry.state, entry.fence, entry.number)
        return True

    def _removed(self, member: str) -> bool:
        if self.members.pop(member, None) is None:
            return False
        for connector, fence in self.held_by(member).items():
            self.leases[connector] = Lease(None, fence)
        return True


def encode_change(change: LogChange) -> bytes:
    """Return a change of versions as it is in an entry."""
    return msgspec.json.encode(change)


def encode(entry: Entry) -> bytes:
    """Return an entry as the payload of a message."""
    return msgspec.msgpack.encode(entry)


def decode(payload: bytes) -> Entry:
    """Return the entry in a payload.

    Raises:
        msgspec.MsgspecError: There is none, or it is of another version.
    """
    try:
        return _DECODER.decode(payload)
    except (UnicodeError, RecursionError) as error:
        raise msgspec.DecodeError(f"text that is not UTF-8, or nested too deeply: {error}") from error


_DECODER: Final[msgspec.msgpack.Decoder[Entry]] = msgspec.msgpack.Decoder(Entry)
_CHANGES: Final[msgspec.json.Decoder[LogChange]] = msgspec.json.Decoder(LogChange)
