"""The types of the SDK: a sample of users' code is accepted by strict checkers, and mistakes are found by them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace_embedded import Server

SAMPLE = Path(__file__).with_name("sample")
ROOT = Path(__file__).parents[3]
EXPECTED = [
    number
    for number, line in enumerate((SAMPLE / "wrong.py").read_text(encoding="utf-8").splitlines(), 1)
    if "# mistake" in line
]


def mypy(*files: Path) -> str:
    # In the directory and with the settings of `make check`, whose cache has the types of the SDK.
    command = [sys.executable, "-m", "mypy", "--python-executable", sys.executable, *map(str, files)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout + found.stderr


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
def test_mypy_accepts_the_sample_and_finds_mistakes() -> None:
    report = mypy(*(SAMPLE / f"{name}.py" for name in ("shop", "awaited", "routing", "wrong")))
    found = re.findall(r"(\w+)\.py:(\d+): error", report)
    assert found == [("wrong", str(number)) for number in EXPECTED], report


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
