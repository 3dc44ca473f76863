"""The Python side of the registry of commands, and the documents that describe commands."""

import re
from pathlib import Path

import pytest

from headrace_proto.commands import REGISTRY, Attribute, CommandCode, ServedBy, commands_with

GENERATOR = "generate_commands"
PROTO_DIRECTORY = Path(__file__).resolve().parents[1]
EXTENSIONS_PATH = PROTO_DIRECTORY.parent / "docs" / "protocol-extensions.md"


def entry(more="", code="1", name="Ping"):
    return f'{{ code = {code}, name = "{name}", family = "f", permission = "none", description = "" {more} }}'


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (['{ code = 1, name = "Ping" }'], "has the fields"),
        ([entry(code='"1"')], "has the fields"),
        ([entry(', size = "large"')], "has the fields"),
        ([entry(code="0")], "ascend"),
        ([entry(), entry(name="Other")], "ascend"),
        ([entry(name="get_me")], "CamelCase"),
        ([entry(), entry(code="2")], "used once"),
        ([entry(', attributes = ["fast"]')], "unknown attribute"),
        ([entry(', served_by = "moon"')], "unknown servers"),
        ([entry(', attributes = ["read-only"]')], "only a request to a partition"),
    ],
)
def test_a_faulty_registry_is_refused(generator, tmp_path, entries, problem):
    path = tmp_path / "commands.toml"
    path.write_text(f"command = [{', '.join(entries)}]")
    with pytest.raises(ValueError, match=problem):
        generator.read_registry(path)


def test_every_command_is_registered():
    assert [*REGISTRY] == sorted(CommandCode)
    assert sum(not code.is_extension for code in REGISTRY) == 47
    assert len({info.name for info in REGISTRY.values()}) == len(REGISTRY)


def test_commands_are_found_by_attribute():
    assert commands_with(Attribute.CARRIES_MESSAGES) == {CommandCode.SEND_MESSAGES, CommandCode.STAGE_MESSAGES}
    assert commands_with(Attribute.READ_ONLY) == {CommandCode.GET_CONSUMER_OFFSET, CommandCode.PLAN_RANGE}
    assert REGISTRY[CommandCode.OPEN_LINK].served_by is ServedBy.PARTITION_NODES
    assert REGISTRY[CommandCode.PING].is_public
    assert not REGISTRY[CommandCode.GET_ME].is_public


def test_every_extension_is_described_under_its_code():
    headings = re.findall(r"`(\w+)` \((\d+)\)", EXTENSIONS_PATH.read_text(encoding="utf-8"))
    extensions = {(info.name, str(int(code))) for code, info in REGISTRY.items() if code.is_extension}
    assert extensions <= {*headings}
