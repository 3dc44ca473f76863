"""Fixtures of tests that start a server."""

from tests.command_line.fixtures import driver

__all__ = ["driver"]
