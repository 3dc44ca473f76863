"""Fixtures of tests that run commands."""

from tests.command_line.fixtures import driver, headrace, server, topic

__all__ = ["driver", "headrace", "server", "topic"]
