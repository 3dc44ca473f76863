"""Upgrades: what an earlier release has written is all there for this one (USE-1)."""
