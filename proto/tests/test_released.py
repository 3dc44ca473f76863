"""Detection of incompatible changes of the .proto files, and of those alone (GW-6)."""

import importlib.util
import shutil
from pathlib import Path

import pytest

PROTO = Path(__file__).resolve().parents[1]
DIRECTORY = "headrace/gateway/v1"

_spec = importlib.util.spec_from_file_location("released", PROTO / "released.py")
released = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(released)


@pytest.fixture
def change(tmp_path):
    """A copy of the files, released as they are; the returned function changes one of them."""
    shutil.copytree(PROTO / "headrace", tmp_path / "headrace")
    shutil.copy(PROTO / "buf.yaml", tmp_path)
    form = tmp_path / "released.binpb"
    released.release(tmp_path, form)

    def apply(file, old, new, *, is_release=False):
        path = tmp_path / file
        content = path.read_text(encoding="utf-8")
        assert old in content
        path.write_text(content.replace(old, new), encoding="utf-8")
        return released.incompatibilities(tmp_path, form, is_release=is_release)

    return apply


def test_the_files_are_compatible_with_their_released_form():
    assert released.incompatibilities() == []


MESSAGES = f"{DIRECTORY}/messages.proto"
SYSTEM = f"{DIRECTORY}/system.proto"
COMMANDS = "headrace/metadata/v1/command.proto"
FLUSH = "  uint32 partition_id = 3;\n  bool sync = 4;"


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        (MESSAGES, FLUSH, "  uint32 partition_id = 3;", 'field "4" with name "sync"'),
        (
            MESSAGES,
            FLUSH,
            '  uint32 partition_id = 3;\n  reserved 4;\n  reserved "sync";',
            'field "4" with name "sync"',
        ),
        (MESSAGES, FLUSH, "  uint32 partition_id = 3;\n  bool synced = 4;", "changed name"),
        (MESSAGES, FLUSH, "  uint32 partition_id = 3;\n  bool sync = 5;", 'field "4" with name "sync"'),
        (MESSAGES, FLUSH, "  uint32 partition_id = 3;\n  uint32 sync = 4;", "changed type"),
        (MESSAGES, FLUSH, "  uint32 partition_id = 3;\n  repeated bool sync = 4;", "changed cardinality"),
        (MESSAGES, FLUSH, "  uint32 partition_id = 3;\n  oneof a { bool sync = 4; }", "oneof"),
        (MESSAGES, FLUSH, "  bool sync = 3;\n  uint32 partition_id = 4;", "changed type"),
        (MESSAGES, "  rpc Flush(FlushRequest) returns (FlushResponse);", "", 'RPC "Flush"'),
        (MESSAGES, "  rpc Flush(FlushRequest)", "  rpc Flush(stream FlushRequest)", "streaming"),
        (MESSAGES, "  rpc Flush(FlushRequest)", "  rpc Flush(PollRequest)", "request type"),
        (MESSAGES, "service Messages {", "service Letters {", 'service "Messages"'),
        (SYSTEM, "  TRANSPORT_WEBSOCKET = 4;", "", 'enum value "4"'),
        (SYSTEM, "  TRANSPORT_WEBSOCKET = 4;", "  TRANSPORT_SOCKET = 4;", "changed name"),
        (SYSTEM, "  TRANSPORT_WEBSOCKET = 4;", "  TRANSPORT_WEBSOCKET = 5;", 'enum value "4"'),
        (SYSTEM, "Transport ", "Way ", '"Transport"'),
        (SYSTEM, "ClientSummary ", "Summary ", '"ClientSummary"'),
    ],
)
def test_what_would_break_clients(change, file, old, new, complaint):
    found = change(file, old, new)
    assert any(complaint in line for line in found), found


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (MESSAGES, FLUSH, f"{FLUSH}\n  bool more = 5;"),
        (MESSAGES, "service Messages {", "service Messages {\n  rpc Touch(FlushRequest) returns (FlushResponse);"),
        (SYSTEM, "  TRANSPORT_WEBSOCKET = 4;", "  TRANSPORT_WEBSOCKET = 4;\n  TRANSPORT_GRPC = 5;"),
        (SYSTEM, "message ListClientsRequest {}", "message ListClientsRequest {}\nmessage More {}"),
    ],
)
def test_what_is_added_breaks_no_client(change, file, old, new):
    assert change(file, old, new) == []


@pytest.mark.parametrize(
    ("new", "is_fine"),
    [
        ("  uint32 partition_id = 3;", False),
        ("  uint32 partition_id = 3;\n  reserved 4;", False),
        ('  uint32 partition_id = 3;\n  reserved 4;\n  reserved "sync";', True),
        ("  uint32 partition_id = 3;\n  uint32 sync = 4;", False),
    ],
)
def test_a_release_without_something_has_it_reserved(change, new, is_fine):
    assert (change(MESSAGES, FLUSH, new, is_release=True) == []) == is_fine
