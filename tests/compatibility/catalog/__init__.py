"""Streams, topics, partitions and segments."""
