"""Options of the data source: one typed value for reading, one for writing."""
