"""The source of files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.performance.cases.connectors.runs import BATCH, ONE_BY_ONE, Measurements, Runs, row

_JSON: Final = "source files, JSON lines"
_CSV: Final = "source files, CSV"
_LINES: Final = "source files, lines"


class Files(Measurements):
    """Files that are complete when the source begins."""

    def __init__(self, runs: Runs) -> None:
        super().__init__(runs)
        self._directory = Path(runs.directory) / "read"

    def turns(self) -> Mapping[str, Callable[[], Mapping[str, float]]]:
        """Return the measurements."""
        rows, tenth = self.runs.rows, self.runs.rows // 10
        alone = _JSON + ONE_BY_ONE
        return {
            _JSON: lambda: {_JSON: self._read("json_lines", rows)},
            alone: lambda: {alone: self._read("json_lines", tenth, one_by_one=True)},
            _CSV: lambda: {_CSV: self._read("csv", rows)},
            _LINES: lambda: {_LINES: self._read("lines", rows)},
        }

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Write the files."""
        self._directory.mkdir()
        rows = [row(number) for number in range(self.runs.rows)]
        lines = "".join(f"{json.dumps(one)}\n" for one in rows)
        for kind in ("json_lines", "lines"):
            (self._directory / f"rows.{kind}").write_text(lines, encoding="utf-8")
        separated = (",".join(map(str, one.values())) for one in rows)
        text = "".join(f"{line}\n" for line in (",".join(rows[0]), *separated))
        (self._directory / "rows.csv").write_text(text, encoding="utf-8")
        yield

    def _read(self, kind: str, count: int, *, one_by_one: bool = False) -> float:
        settings = (
            f'paths = ["{self._directory}/rows.{kind}"]\nformat = "{kind}"\nbatch_size = {BATCH}\n'
            'poll_interval = "10 ms"\n'
        )
        return self.runs.source("files", settings, count, one_by_one=one_by_one)
