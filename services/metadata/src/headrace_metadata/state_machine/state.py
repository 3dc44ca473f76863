"""The complete state of the state machine."""

from __future__ import annotations

from headrace_metadata.state_machine.groups.records import Groups
from headrace_metadata.state_machine.placement.records import Nodes
from headrace_metadata.state_machine.streams.records import Catalog
from headrace_metadata.state_machine.transactions.records import Pins, Transactions
from headrace_metadata.state_machine.transactions.stages import Stages
from headrace_metadata.state_machine.users.records import Accounts
from headrace_proto.catalog.v1 import Delta


class State:
    """All records, with the catalog changes of the command in progress.

    Attributes:
        catalog: Streams, topics and partitions.
        accounts: Users, passwords and access tokens.
        groups: Consumer groups, their members and the gateways of these.
        nodes: Partition nodes and the placement of partitions.
        stages: Committed staged batches not yet appended, and aborted ones.
        transactions: Last committed transactions, by name.
        pins: Pinned reader positions, by name.
        changes: Changes since the list was last cleared.
    """

    def __init__(self) -> None:
        self.changes: list[Delta] = []
        self.catalog = Catalog(self.changes)
        self.accounts = Accounts(self.changes)
        self.groups = Groups(self.changes)
        self.nodes = Nodes(self.changes)
        self.stages = Stages(self.changes)
        self.transactions = Transactions()
        self.pins = Pins()

    def copy(self) -> State:
        """Return an independent state with the same records and no changes."""
        other = State()
        other.catalog = self.catalog.copy(other.changes)
        other.accounts = self.accounts.copy(other.changes)
        other.groups = self.groups.copy(other.changes)
        other.nodes = self.nodes.copy(other.changes)
        other.stages = self.stages.copy(other.changes)
        other.transactions = self.transactions.copy()
        other.pins = self.pins.copy()
        return other
