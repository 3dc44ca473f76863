"""Metrics, logs, lag and settings of a running server."""
