"""Kills, pauses and network partitions of three real replicas of the metadata service."""
