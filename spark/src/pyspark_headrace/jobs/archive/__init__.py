"""The job `archive`: topics into tables of Delta Lake or Iceberg.

Spark assigns ranges of offsets to tasks. A task reads its range, decodes the messages, writes the files itself, and
returns a description of them. The driver commits the files, once per micro-batch. No message becomes a Spark row.
"""
