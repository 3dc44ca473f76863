"""Reads: planning on the driver, tasks, state of streams."""
