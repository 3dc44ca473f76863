"""Transactions, their stages, and reader pins: records and commands."""
