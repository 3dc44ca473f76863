"""Headrace: a persistent, partitioned, append-only message log."""
