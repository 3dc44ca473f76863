"""Configurations of connectors and mappings, in versions that are never changed."""
