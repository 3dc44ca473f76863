"""Numbers of several rounds, and their presentation."""
