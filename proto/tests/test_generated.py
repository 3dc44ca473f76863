"""The generated package: importable beside the client library, and complete."""

import importlib
import re
from pathlib import Path

import pytest
from google.protobuf.descriptor_pool import Default

import headrace_proto
from headrace_proto import limits

PROTO_DIRECTORY = Path(__file__).parents[1]
SOURCES = sorted(
    path.relative_to(PROTO_DIRECTORY).as_posix() for path in (PROTO_DIRECTORY / "headrace").rglob("*.proto")
)


@pytest.mark.parametrize("source", SOURCES)
def test_every_message_and_enumeration_is_exported(source):
    package = importlib.import_module("headrace_proto." + ".".join(Path(source).parent.parts[1:]))
    declared = re.findall(r"^(?:message|enum) (\w+)", (PROTO_DIRECTORY / source).read_text(), flags=re.MULTILINE)
    assert declared
    assert set(declared) <= set(package.__all__)
    for name in declared:
        assert getattr(package, name).DESCRIPTOR.file.name == source
    assert Default().FindFileByName(source).package == ".".join(Path(source).parent.parts)


def test_nothing_is_imported_from_the_name_of_the_client_library():
    modules = list(Path(headrace_proto.__file__).parent.rglob("*.py*"))
    sources = [path.read_text() for path in modules if path.suffix in {".py", ".pyi"}]
    assert len(sources) > 10
    assert not any(re.search(r"^\s*(from|import) headrace[. ]", source, flags=re.MULTILINE) for source in sources)


def test_shard_3_limits_are_those_of_the_rust_model():
    """Compare the limits of both implementations: both refuse the same values."""
    rust = (PROTO_DIRECTORY.parent / "core/crates/model/src/limits.rs").read_text()
    ranges = re.findall(r"const (\w+): core::ops::RangeInclusive<usize> = (\d+)\.\.=(\d+);", rust)
    assert len(ranges) == 3
    for name, first, last in ranges:
        assert getattr(limits, name) == range(int(first), int(last) + 1)
    commands_max = re.search(r"PARTITIONS_PER_COMMAND_MAX: u32 = (\d+);", rust)
    assert int(commands_max[1]) == limits.PARTITIONS_PER_COMMAND_MAX
    namespace = (PROTO_DIRECTORY.parent / "core/crates/model/src/namespace.rs").read_text()
    for name, maximum in {
        "STREAM": limits.STREAMS_MAX,
        "TOPIC": limits.TOPICS_PER_STREAM_MAX,
        "PARTITION": limits.PARTITIONS_PER_TOPIC_MAX,
    }.items():
        bits = re.search(rf"const {name}_BITS: u32 = (\d+);", namespace)
        assert maximum == 1 << int(bits[1])
