"""The job `audit`: whether topics and archives hold what they should.

Every task reads a range of offsets and says what it has found: where it begins and ends, how many messages, their times
and their digest. The driver puts the ranges together. No message leaves its task.
"""
