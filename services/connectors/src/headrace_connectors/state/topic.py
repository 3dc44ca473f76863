"""States in the ledger of a group: all its processes can read them, and only the holder of a source's lease saves."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace_connectors.contract import ConnectorError
from headrace_connectors.leases.ledger import SavedState
from headrace_connectors.leases.member import GroupMember
from headrace_connectors.state.store import StateStore


class LedgerStates:
    """States in a ledger, for `load` alone.

    Args:
        states: Return those of the ledger.
        files: Storage before the group was made: a source without a state in the ledger continues there.
    """

    def __init__(self, states: Callable[[], Mapping[str, SavedState]], files: StateStore) -> None:
        self._states = states
        self._files = files

    async def load(self, key: str, plugin: str) -> bytes | None:
        """Return the state of a source; None if there is none.

        Raises:
            ConnectorError: It is the state of another plugin.
        """
        found = self._states().get(key)
        if found is None:
            return await self._files.load(key, plugin)
        if found.plugin != plugin:
            raise ConnectorError(
                f"the group has the state of plugin {found.plugin!r} for {key}, and the source is of plugin {plugin!r} "
                "now: give the source another name"
            )
        return found.state


class TopicStates(LedgerStates):
    """States of the sources of a group. A state is one message: it is stored as a whole or not at all.

    Args:
        member: The own process.
        files: As of `LedgerStates`.
    """

    def __init__(self, member: GroupMember, files: StateStore) -> None:
        super().__init__(lambda: member.states, files)
        self._member = member

    async def save(self, key: str, plugin: str, state: bytes) -> None:
        """Replace the state of a source.

        Raises:
            LeaseLost: Another process has the source: nothing was saved.
            Unavailable: It is not known whether it was saved.
        """
        await self._member.save(key, plugin, state)
