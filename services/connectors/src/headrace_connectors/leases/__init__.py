"""Leases of connectors: which process of a group runs which connector, agreed in the log of an internal topic."""
