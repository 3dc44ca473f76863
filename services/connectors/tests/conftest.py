"""Servers and files that the tests of connectors share."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.postgresql import database, database_url, postgresql_server

from headrace_connectors.pipeline_file.pipeline import parse_pipeline
from headrace_connectors.plugins.discovery import Plugins

__all__ = ["database", "database_url", "postgresql_server"]


@pytest.fixture
def parse(tmp_path: Path):
    """Check the text of a pipeline file."""

    def parse(text: str, **environment: str):
        return parse_pipeline(tmp_path / "pipeline.toml", text, Plugins(), environment)

    return parse
