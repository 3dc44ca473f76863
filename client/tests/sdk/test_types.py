"""The types of the SDK: a sample of users' code is accepted by strict checkers, and mistakes are found by them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.embedded import Server

SAMPLE = Path(__file__).with_name("sample")
ROOT = Path(__file__).parents[3]
EXPECTED = [
    number
    for number, line in enumerate((SAMPLE / "wrong.py").read_text(encoding="utf-8").splitlines(), 1)
    if "# mistake" in line
]


def mypy(*files: Path, cache: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml")]
    paths = {"--cache-dir": cache, "--python-executable": sys.executable}
    options = [str(word) for pair in paths.items() for word in pair]
    found = subprocess.run(
        [*command, *options, *map(str, files)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.returncode, found.stdout + found.stderr


def pyright(tmp_path: Path, *files: Path) -> list[tuple[str, int, str]]:
    sources = [str(ROOT / "client/src"), str(ROOT / "core/python")]
    settings = {"include": [str(file) for file in files], "extraPaths": sources, "typeCheckingMode": "strict"}
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps(settings | {"pythonVersion": "3.11"}), encoding="utf-8")
    command = [str(Path(sys.executable).with_name("basedpyright")), "--project", str(project), "--outputjson"]
    report = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = json.loads(report)["generalDiagnostics"]
    return [
        (Path(entry["file"]).name, entry["range"]["start"]["line"] + 1, entry["message"])
        for entry in found
        if entry["severity"] == "error"
    ]


@pytest.mark.long
def test_mypy_accepts_the_sample_and_finds_mistakes(tmp_path: Path) -> None:
    status, report = mypy(SAMPLE / "shop.py", SAMPLE / "awaited.py", SAMPLE / "routing.py", cache=tmp_path)
    assert status == 0, report
    status, report = mypy(SAMPLE / "wrong.py", cache=tmp_path)
    assert [int(line) for line in re.findall(r"wrong\.py:(\d+): error", report)] == EXPECTED, report


@pytest.mark.long
def test_pyright_accepts_the_sample_and_finds_mistakes(tmp_path: Path) -> None:
    found = pyright(tmp_path, SAMPLE / "shop.py", SAMPLE / "awaited.py", SAMPLE / "routing.py", SAMPLE / "wrong.py")
    assert [entry for entry in found if entry[0] != "wrong.py"] == []
    assert sorted({line for _, line, _ in found}) == EXPECTED, found


def test_the_sample_runs(server: Server) -> None:
    from sdk.sample import awaited, routing, shop

    url = f"headrace://{server.username}:{server.password}@{server.address}"
    report = shop.run(url)
    assert sorted(report.payloads) == [b"1", b"2", b"3", b"4"]
    assert sorted(report.assigned) == [0, 1]
    assert sorted(awaited.main(url)) == [b"1", b"1", b"2", b"2"]
    assert len(shop.starts()) == 4
    assert routing.run(url) == (2, 2, [b"row"])
