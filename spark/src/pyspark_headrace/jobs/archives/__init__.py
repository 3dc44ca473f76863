"""The archive: messages of topics in Parquet files that any reader knows, and a log that says which files count.

Nothing is imported here: drivers need other parts of it than tasks.
"""
