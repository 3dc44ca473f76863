"""Sending, polling, waiting and retention."""
