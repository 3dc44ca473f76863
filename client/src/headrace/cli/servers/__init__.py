"""Servers: where they are, as whom to log in, and what they have."""
