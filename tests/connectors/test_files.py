"""CON-42: files into topics, with a server and real kills."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from tests.connectors.process import Connectors, until

LINES = 600


def pipeline(paths: Path, stream: str, *, more: str = "") -> str:
    return (
        f'[sources.a]\nplugin = "files"\nstream = "{stream}"\ntopic = "t"\n'
        f'[sources.a.settings]\npaths = ["{paths}"]\nbatch_size = 50\npoll_interval = "5 ms"\n{more}\n'
        '[sources.a.delivery]\nbackoff_min = "5 ms"\nbackoff_max = "20 ms"\ncommit_failure_threshold = 3\n'
    )


def stored(client: headrace.Client, stream: str) -> list[headrace.Message]:
    """All messages of the topic; none if it does not exist."""
    try:
        return list(client.read(stream, "t", partition=0, count=10_000))
    except headrace.NotFound:
        return []


@pytest.mark.long(but=1)
@pytest.mark.parametrize("point", ["third-save", "after-third-save", "within-saving", "before-committing"])
def test_every_line_is_stored_with_one_id_whatever_is_killed(
    client: headrace.Client, connectors: Connectors, stream: str, tmp_path: Path, point: str
) -> None:
    """Killed again and again while files are written, renamed and truncated: each line at least once, with one id."""
    logs = tmp_path / "logs"
    logs.mkdir()
    log = logs / "a.log"
    connectors.write(pipeline(logs / "*.log", stream))
    for part in range(4):
        with log.open("a", encoding="utf-8") as file:
            file.writelines(f"{part}/{number}\n" for number in range(LINES // 4))
        connectors.run(fault=(point,))
        connectors.wait()
        if part == 1:
            log.rename(logs / "old.log")
    connectors.run()
    expected = {f"{part}/{number}" for part in range(4) for number in range(LINES // 4)}
    until(lambda: {message.payload.decode().strip('"') for message in stored(client, stream)} >= expected)
    ids: dict[str, set[int]] = {}
    for message in stored(client, stream):
        ids.setdefault(message.payload.decode().strip('"'), set()).add(message.id)
    assert set(ids) == expected
    assert {len(found) for found in ids.values()} == {1}
    assert connectors.stop() == 0


def test_bad_lines_hold_the_source_up_or_are_dropped(
    client: headrace.Client, connectors: Connectors, stream: str, tmp_path: Path
) -> None:
    """The status has file and line; with `drop` the others go on, and the file is deleted when it is stored."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"n": 1}\nbad\n{"n": 2}\n', encoding="utf-8")
    more = 'format = "json_lines"\ndelete_after_read = true\ncomplete_after = "10 ms"'
    connectors.run(pipeline(path, stream, more=more))
    status = connectors.becomes("a", "degraded")
    assert status["error_code"] == "invalid_record"
    assert f"{path}, line 2: it is not JSON" in status["last_error"]
    assert stored(client, stream) == []
    connectors.stop()
    dropping = '[sources.a.admission]\non_admission_failure = "drop"\n'
    connectors.run(pipeline(path, stream, more=more) + dropping)
    until(lambda: not path.exists())
    assert [message.payload for message in stored(client, stream)] == [b'{"n":1}', b'{"n":2}']
    assert connectors.metric("headrace_connector_records_invalid_total", connector_key="a") == 1
    assert connectors.status("a")["state"] == "running"
