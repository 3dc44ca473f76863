"""Cases of transforms of fields, and of codecs with schemas."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st

from headrace_connectors.conformance import CodecCase, TransformCase
from headrace_connectors.contract import Record


class FieldsCase(TransformCase):
    """A transform of the fields of objects; its subclasses are one for each."""

    given: ClassVar[Mapping[str, Any]]

    def settings(self) -> Mapping[str, Any]:
        return self.given

    def records(self) -> Sequence[Record]:
        return [*super().records(), Record(b'{"type": "x", "order": {"id": 1}}'), Record(b"{"), Record({"order": 3})]


class AddFieldsCase(FieldsCase):
    name = "add_fields"
    given: ClassVar = {"fields": {"order.site": "berlin"}, "copies": {"kind": "type"}}


class DeleteFieldsCase(FieldsCase):
    name = "delete_fields"
    given: ClassVar = {"fields": ["order.id", "note"]}


class FilterFieldsCase(FieldsCase):
    name = "filter_fields"
    given: ClassVar = {"fields": ["order.id", "type"]}


class RenameFieldsCase(FieldsCase):
    name = "rename_fields"
    given: ClassVar = {"fields": {"order.id": "id", "type": "order.kind"}}


class MaskFieldsCase(FieldsCase):
    name = "mask_fields"
    given: ClassVar = {"redact": ["note"], "hash": ["order.id"], "keep_last": {"type": 2}, "key": "0123456789abcdef"}


class SplitCase(FieldsCase):
    name = "split"
    given: ClassVar = {"field": "order.items"}


class FunctionCase(FieldsCase):
    """A function of the standard library: it refuses every record, as it is no iterable."""

    name = "python"
    given: ClassVar = {"function": "builtins:sorted"}


class FileCase(CodecCase):
    """A codec with a file beside it."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="headrace-codec-")
        self.file = Path(self._directory.name) / "schema"

    async def clean(self) -> None:
        self._directory.cleanup()


class AvroCase(FileCase):
    name = "avro"
    bad_bytes = (b"", b"\xff", b"\x02\x04a", b"\x02\x02a\x00")

    def settings(self) -> Mapping[str, Any]:
        return {"schema_file": str(self.file)}

    async def prepare(self) -> None:
        fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
        self.file.write_text(json.dumps({"type": "record", "name": "Row", "fields": fields}), encoding="utf-8")

    def payloads(self) -> Any:
        text = st.text(st.characters(exclude_categories=["Cs"]))
        return st.fixed_dictionaries({"id": st.integers(-(2**63), 2**63 - 1), "name": text})


class ProtobufCase(CodecCase):
    """A message that every installation has."""

    name = "protobuf"
    bad_bytes = (b"\xff", b"\x0a\x05ab", b"\x0f")

    def settings(self) -> Mapping[str, Any]:
        return {"module": "google.protobuf.source_context_pb2", "message": "google.protobuf.SourceContext"}

    def payloads(self) -> Any:
        text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
        return st.fixed_dictionaries({}, optional={"file_name": text})


class ArrowCase(CodecCase):
    name = "arrow"
    bad_bytes = (b"", b"no stream", b"\xff\xff\xff\xff\x10\x00\x00\x00")

    def payloads(self) -> Any:
        text = st.text(st.characters(exclude_categories=["Cs"]))
        return st.lists(st.fixed_dictionaries({"id": st.integers(-(2**63), 2**63 - 1), "name": text}), max_size=4)
