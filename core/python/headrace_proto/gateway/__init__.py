"""Versions of ``headrace.gateway``. Made by proto/generate.py."""
