"""Connectors as a user types them, from documents."""
