"""Output of commands: untrusted text cannot control the terminal."""

from __future__ import annotations

import json

import pytest
import yaml
from rich.console import Console

from headrace.cli import output

COLUMNS = ("id", "first offset", "name")
ROWS = ((1, 1_234_567, "a-name-that-is-long"), (2, 2, "b"))


def test_control_characters_are_shown() -> None:
    assert output.harmless("a\x1b[31m\x07\nb\r\x7f\x9b1m\tc") == r"a\x1b[31m\x07\x0ab\x0d\x7f\x9b1m" + "\tc"
    assert output.harmless("Grüße ✓") == "Grüße ✓"
    assert output.harmless("a\u202eb\u2066\u200f\u061c\u2028") == r"a\u202eb\u2066\u200f\u061c\u2028"


def test_text_is_not_reordered_in_any_form(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON and YAML escape the characters, so that programs read the same text."""
    document = {"payload": "invoice\u202efdp.exe ü"}
    output.print_json(document)
    as_json = capsys.readouterr().out
    output.print_yaml(document)
    as_yaml = capsys.readouterr().out
    output.print_table(["payload"], [["invoice\u202efdp.exe"]])
    printed = as_json + as_yaml + capsys.readouterr().out + output.paragraph("invoice\u202efdp.exe", indent=2)
    assert "\u202e" not in printed
    assert json.loads(as_json) == yaml.safe_load(as_yaml) == document


def test_tables_and_json_hold_none(capsys: pytest.CaptureFixture[str]) -> None:
    name = "x\x1b]0;owned\x07\x9b31m\x7f"
    output.print_table(["name"], [[name]])
    output.print_json({"name": name})
    table, document = capsys.readouterr().out.rsplit("\n", 2)[0:2]
    assert r"x\x1b]0;owned\x07\x9b31m\x7f" in table
    assert not set(document) & set("\x1b\x07\x9b\x7f")
    assert json.loads(document) == {"name": name}


@pytest.mark.parametrize("width", [120, 40, 30, 12])
def test_nothing_is_cut_off(width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "stdout", lambda: Console(highlight=False, width=width))
    output.print_table(COLUMNS, ROWS)
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert "1,234,567" in printed
    assert "a-name-that-is-long" in "".join(part for part in printed.split() if part.strip("1,234567b"))


def test_rows_too_wide_for_columns_are_lists(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "stdout", lambda: Console(highlight=False, width=12))
    output.print_table(COLUMNS, ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "id            1",
        "first offset  1,234,567",
        "name          a-name-that-is-long",
        "",
        "id            2",
        "first offset  2",
        "name          b",
    ]


def test_colours_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output.coloured("fail", "red") == "\x1b[31mfail\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.coloured("fail", "red") == "fail"
