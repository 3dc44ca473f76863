"""Delivery of partitions to subscribers, within their credit."""
