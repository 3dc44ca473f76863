"""The job `compact`: merges small files of a Delta Lake table, expires old messages, and deletes unused files.

The library of Delta Lake does the work, in this process. Concurrent readers of an earlier state find its files for a
while.
"""
