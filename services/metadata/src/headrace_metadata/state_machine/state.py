"""Everything that the state machine remembers."""

from __future__ import annotations

from headrace_metadata.state_machine.accounts import Accounts
from headrace_metadata.state_machine.catalogue import Catalogue
from headrace_metadata.state_machine.groups_records import Groups
from headrace_metadata.state_machine.nodes_records import Nodes
from headrace_proto.catalog.v1 import Delta


class State:
    """Catalogue, accounts, consumer groups and nodes, with the changes that the command in progress has made to them.

    Attributes:
        catalogue: Streams, topics and partitions.
        accounts: Users, passwords and access tokens.
        groups: Consumer groups, their members and the gateways of these.
        nodes: Partition nodes and what is placed on them.
        changes: What has been put or removed since it was last cleared.
    """

    def __init__(self) -> None:
        self.changes: list[Delta] = []
        self.catalogue = Catalogue(self.changes)
        self.accounts = Accounts(self.changes)
        self.groups = Groups(self.changes)
        self.nodes = Nodes(self.changes)

    def copy(self) -> State:
        """Return an independent state with the same records and no changes."""
        other = State()
        other.catalogue = self.catalogue.copy(other.changes)
        other.accounts = self.accounts.copy(other.changes)
        other.groups = self.groups.copy(other.changes)
        other.nodes = self.nodes.copy(other.changes)
        return other
