"""Loads on a server, and their measurement."""
