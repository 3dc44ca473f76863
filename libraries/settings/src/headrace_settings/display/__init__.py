"""Showing a configuration: as a list, as documents, without secrets."""
