"""Exactly once together with other promises: shared connectors, and processes of their own."""
