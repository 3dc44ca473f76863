"""Fault tests: kills, power cuts, network partitions and damaged files."""
