"""The job `audit`: checks of the contents of topics and archives.

Every task reads a range of offsets and reports what it has found: first and last offset, number of messages, timestamps
and digest. The driver combines the ranges. No message leaves its task.
"""
