"""Versions of ``headrace.partition``. Made by proto/generate.py."""
