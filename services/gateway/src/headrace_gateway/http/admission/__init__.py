"""Checks of connections and requests before a handler runs."""
