"""Trials of connectors: what they would do, without doing it."""
