"""Feeds of partitions, shared by subscriptions."""
