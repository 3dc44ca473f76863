"""Connectors that a member should claim or give up, so that all have about the same number."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from headrace_connectors.leases.ledger import Ledger


class Changes(NamedTuple):
    """Changes that a member should make."""

    claims: list[str]
    """Connectors to claim."""
    releases: list[str]
    """Connectors to give up, after they were stopped."""


def changes(ledger: Ledger, me: str, live: Collection[str]) -> Changes:
    """Return what a member should change.

    Members agree as far as they see the same members as live. If they do not, the ledger decides who gets a connector.

    Args:
        ledger: The ledger.
        me: The member.
        live: Members that renew their leases; the own one is among them.
    """
    listed = {member: set(ledger.members[member].renewal.connectors) for member in live}
    held = {member: len(ledger.held_by(member)) for member in live}
    quotas = _quotas(len(set[str]().union(*listed.values())), held)
    mine = ledger.held_by(me)
    free = [name for name in sorted(listed[me]) if (lease := ledger.leases.get(name)) is None or lease.owner is None]
    claims: list[str] = []
    for name in free:
        able = [member for member in live if name in listed[member]]
        # Members that can run it have no room: the rest of the quotas is with members that can run others only.
        is_left = all(held[member] >= quotas[member] for member in able)
        if len(mine) + len(claims) < quotas[me] or (is_left and me == min(able, key=lambda one: (held[one], one))):
            claims.append(name)
    needing = [member for member in live if member != me and held[member] < quotas[member]]
    movable = [name for name in sorted(mine) if any(name in listed[member] for member in needing)]
    excess = max(0, len(mine) - quotas[me])
    return Changes(claims, movable[:excess])


def _quotas(connectors_count: int, held: dict[str, int]) -> dict[str, int]:
    """Return the number of connectors that each member should have; those that have most keep the remainder."""
    base, remainder = divmod(connectors_count, len(held))
    ranked = sorted(held, key=lambda member: (-held[member], member))
    return {member: base + (1 if rank < remainder else 0) for rank, member in enumerate(ranked)}
