"""Everything that the state machine remembers."""

from __future__ import annotations

from headrace_metadata.state_machine.accounts import Accounts
from headrace_metadata.state_machine.catalogue import Catalogue
from headrace_metadata.state_machine.groups_records import Groups
from headrace_metadata.state_machine.nodes_records import Nodes
from headrace_metadata.state_machine.stages_records import Stages
from headrace_metadata.state_machine.transactions_records import Pins, Transactions
from headrace_proto.catalog.v1 import Delta


class State:
    """All records, with the changes that the command in progress has made to those that the catalogue shows.

    Attributes:
        catalogue: Streams, topics and partitions.
        accounts: Users, passwords and access tokens.
        groups: Consumer groups, their members and the gateways of these.
        nodes: Partition nodes and what is placed on them.
        stages: Staged messages that are committed and not yet appended, and those that are given up.
        transactions: What was committed last, by name.
        pins: What is kept for readers, by name.
        changes: What has been put or removed since it was last cleared.
    """

    def __init__(self) -> None:
        self.changes: list[Delta] = []
        self.catalogue = Catalogue(self.changes)
        self.accounts = Accounts(self.changes)
        self.groups = Groups(self.changes)
        self.nodes = Nodes(self.changes)
        self.stages = Stages(self.changes)
        self.transactions = Transactions()
        self.pins = Pins()

    def copy(self) -> State:
        """Return an independent state with the same records and no changes."""
        other = State()
        other.catalogue = self.catalogue.copy(other.changes)
        other.accounts = self.accounts.copy(other.changes)
        other.groups = self.groups.copy(other.changes)
        other.nodes = self.nodes.copy(other.changes)
        other.stages = self.stages.copy(other.changes)
        other.transactions = self.transactions.copy()
        other.pins = self.pins.copy()
        return other
