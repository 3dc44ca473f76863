"""Random histories of tables that are copied while source, sink and database are killed."""
