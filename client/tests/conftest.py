"""Fixtures of all tests in this directory."""

import sys
from pathlib import Path

from tests.command_line.fixtures import driver, headrace, server, topic

# In this import mode a test directory is not on the path by itself.
sys.path.insert(0, str(Path(__file__).parent))

__all__ = ["driver", "headrace", "server", "topic"]
