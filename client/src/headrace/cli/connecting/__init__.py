"""Connectors in the process of the command."""
