"""Output of commands: untrusted text cannot control the terminal."""

from __future__ import annotations

import json

import pytest

from headrace.cli import output


def test_control_characters_are_shown() -> None:
    assert output.harmless("a\x1b[31m\x07\nb\r\x7f\x9b1m\tc") == r"a\x1b[31m\x07\x0ab\x0d\x7f\x9b1m" + "\tc"
    assert output.harmless("Grüße ✓") == "Grüße ✓"


def test_tables_and_json_hold_none(capsys: pytest.CaptureFixture[str]) -> None:
    name = "x\x1b]0;owned\x07\x9b31m\x7f"
    output.print_table(["name"], [[name]])
    output.print_json({"name": name})
    table, document = capsys.readouterr().out.rsplit("\n", 2)[0:2]
    assert r"x\x1b]0;owned\x07\x9b31m\x7f" in table
    assert not set(document) & set("\x1b\x07\x9b\x7f")
    assert json.loads(document) == {"name": name}
