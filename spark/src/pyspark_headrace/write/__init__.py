"""Appends: rows of a task as batches, to the leaders of partitions."""
