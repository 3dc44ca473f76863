"""Autobahn test suite against the echo servers of both WebSocket endpoints; `wstest` has to be on the path."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.ports import free_port
from tests.soak.suites import ROOT

_GOOD: Final = {"OK", "INFORMATIONAL"}
_READY_SECONDS: Final = 300.0
"""Timeout for the echo servers, including the build of the Rust example."""


def main() -> int:
    """Run the suite against each echo; print the cases that are neither good nor informational."""
    ports = [free_port(), free_port()]
    echoes = [
        subprocess.Popen([sys.executable, "-m", "tests.apis.push.echo", str(ports[0])], cwd=ROOT),
        subprocess.Popen(
            [
                "cargo",
                "run",
                "--quiet",
                "-p",
                "headrace-websocket",
                "--example",
                "echo",
                f"127.0.0.1:{ports[1]}",
            ],
            cwd=ROOT / "core",
        ),
    ]
    try:
        return max(_judged(port) for port in ports)
    finally:
        for echo in echoes:
            echo.terminate()
            echo.wait()


def _judged(port: int) -> int:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        spec = {"servers": [{"url": f"ws://127.0.0.1:{port}"}], "cases": ["*"], "exclude-cases": ["12.*", "13.*"]}
        (directory / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
        deadline = time.monotonic() + _READY_SECONDS
        report = directory / "reports/servers/index.json"
        # While no server listens yet, `wstest` exits at once, without a report or with an empty one.
        while not (reports := json.loads(report.read_bytes()) if report.exists() else {}):
            subprocess.run(["wstest", "-m", "fuzzingclient", "-s", "spec.json"], cwd=directory, check=False)
            assert time.monotonic() < deadline, f"no report of the echo on port {port}"
        (cases,) = reports.values()
    bad = {case: verdict["behavior"] for case, verdict in cases.items() if verdict["behavior"] not in _GOOD}
    sys.stdout.write(f"port {port}: {len(cases)} cases, {len(bad)} bad {bad or ''}\n")
    return 1 if bad or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
