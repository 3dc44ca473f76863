"""The job `compact`: merges small files of an archive, expires old messages, and deletes unused files.

Tasks merge adjacent files of one partition and day. The driver replaces them in the archive's log, all files of a round
in one commit. Concurrent readers of an earlier state find its files for a while.
"""
