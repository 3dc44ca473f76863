"""Archive format: messages of topics in standard Parquet files, and a log that lists the committed files.

Nothing is imported here: the driver and tasks need different modules.
"""
