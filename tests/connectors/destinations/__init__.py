"""Destinations of sources, at a real server."""
