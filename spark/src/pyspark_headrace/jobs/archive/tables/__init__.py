"""What says which files count: the log of an archive, or a table of Iceberg or Delta Lake."""
