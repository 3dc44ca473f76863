"""Staging by tasks and commits by the driver."""
