"""Streams, topics and partitions: records and commands."""
