"""Partition nodes as processes, with a real metadata service."""
