"""Versions of ``headrace.control``. Made by proto/generate.py."""
