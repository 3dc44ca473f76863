"""CON-92: processes of connectors leave what is loaded out of garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_connectors import process
from headrace_connectors.garbage_collection import loaded_objects_frozen

PIPELINE = """[server]
url = "headrace://127.0.0.1:1"
username = "u"
password = "p"
[sources.a]
plugin = "random"
stream = "s"
topic = "t"
"""


@pytest.fixture(autouse=True)
def nothing_is_frozen() -> Iterator[None]:
    """Undo for each test what conftest.py has frozen for all of them."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_objects_are_frozen_during_the_block() -> None:
    assert gc.get_freeze_count() == 0
    with loaded_objects_frozen():
        assert gc.get_freeze_count() > 10_000
    assert gc.get_freeze_count() == 0


def test_the_process_freezes_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []

    async def served(*_: object, **__: object) -> None:
        counts.append(gc.get_freeze_count())

    monkeypatch.setattr(process, "serve", served)
    monkeypatch.setattr(process.log_output, "configure", lambda _: None)
    file = tmp_path / "pipeline.toml"
    file.write_text(PIPELINE, encoding="utf-8")
    assert process.main([str(file)]) == 0
    assert counts[0] > 10_000
