"""The examples of docs/push.md work unchanged (GW-5)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from headrace_gateway.push import forms
from headrace_gateway.push.connections.socket import Close
from tests.server_process import ServerProcess

PAGE = Path(__file__).parents[3] / "docs/push.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def test_the_program_works(server: ServerProcess, tmp_path: Path) -> None:
    (program,) = blocks("python")
    environment = os.environ | {"HEADRACE_URL": server.http_url}
    command = [sys.executable, "-c", program]
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert (result.returncode, result.stdout) == (0, "0 b'paid'\n"), result.stderr


def test_every_message_is_of_a_form() -> None:
    messages = blocks("json")
    assert len(messages) >= 8
    found = set()
    for text in messages:
        kind = json.loads(text)["type"]
        found.add(kind)
        if kind != "messages":
            assert forms.decode(text).__struct_config__.tag == kind
    assert found == {"messages", *(form.__struct_config__.tag for form in forms.AnyRequest.__args__)}


def test_every_close_code_is_there() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("## Close codes")[2]
    reported = {int(code) for cell in re.findall(r"^\| ([\d, ]+) \|", page, re.MULTILINE) for code in cell.split(", ")}
    assert set(Close) <= reported
