"""The sink for SQLite."""
