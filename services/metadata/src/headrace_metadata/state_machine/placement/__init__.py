"""Partition nodes and the placement of partitions on them: records and commands."""
