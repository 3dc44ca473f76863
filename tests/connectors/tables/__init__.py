"""Sinks that write to several tables."""
