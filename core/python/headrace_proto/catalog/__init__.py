"""Versions of ``headrace.catalog``. Made by proto/generate.py."""
