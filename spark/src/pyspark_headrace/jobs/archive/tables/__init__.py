"""Tables, which define the committed files: the log of a native archive, or a table of Iceberg or Delta Lake."""
