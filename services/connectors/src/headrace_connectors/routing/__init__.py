"""Destinations of records."""
