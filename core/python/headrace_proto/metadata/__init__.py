"""Versions of ``headrace.metadata``. Made by proto/generate.py."""
