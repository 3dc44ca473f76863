"""Sources that read PostgreSQL: by polling a table, and by its log of changes."""
