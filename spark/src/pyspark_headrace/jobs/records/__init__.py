"""Conversion between messages and SQL rows, common to jobs from topic to topic.

The schema file of values has the same format as that of `archive`.
"""
