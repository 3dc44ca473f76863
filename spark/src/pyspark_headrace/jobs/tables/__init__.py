"""Archives: messages of topics in Parquet files, which a table of Delta Lake or Iceberg lists.

Nothing is imported here: the driver and tasks need different modules.
"""
