"""Connections of this process to its node, with a logged-in user."""
