"""Processes of a group, which share their connectors and the versions of their configurations."""
