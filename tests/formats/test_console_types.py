"""Types of the console, which are those of the answers that it gets."""

import re
from pathlib import Path
from typing import Final

import msgspec
import pytest

import headrace_connectors_api as api

ROOT: Final = Path(__file__).resolve().parents[2]
TYPES: Final = (ROOT / "web/console/src/api/connectors.ts").read_text(encoding="utf-8")
ANSWERS: Final[dict[str, type[msgspec.Struct]]] = {
    "Connector": api.ConnectorAnswer,
    "ConnectorError": api.ConnectorErrorAnswer,
    "ConnectorHistory": api.ConnectorHistoryAnswer,
    "ConnectorLag": api.ConnectorLagAnswer,
    "ConnectorVersion": api.ConnectorVersionAnswer,
    "ConnectorVersions": api.ConnectorVersionsAnswer,
    "Destination": api.DestinationAnswer,
    "StateChange": api.StateChangeAnswer,
}


def test_each_type_has_an_answer() -> None:
    """The state of a transform has the fields of its plugin."""
    assert set(re.findall(r"^export interface (\w+)", TYPES, re.MULTILINE)) == {*ANSWERS, "TransformReport"}


@pytest.mark.parametrize("name", ANSWERS)
def test_fields_of_connectors_are_in_the_answers(name: str) -> None:
    text = TYPES.partition(f"export interface {name} {{")[2].partition("\n}")[0]
    fields = re.findall(r"^  (\w+)\??:", text, re.MULTILINE)
    assert fields
    assert set(fields) <= set(ANSWERS[name].__struct_fields__)
