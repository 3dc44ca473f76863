"""Sinks that come with Headrace."""
