"""Throughput of connectors: `case` is what runs, each other file measures connectors of one kind."""
