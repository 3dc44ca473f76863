"""Transforms of the fields of objects: add, delete, keep some, rename; and a list as a record for each element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from headrace_connectors.contract import InvalidRecord, Record, Settings, Transform, stable_id
from headrace_connectors.routing.paths import MISSING, FieldPath, ReadPath, parse_path, value_at, without
from headrace_connectors.transforms.payloads import decoded, object_of, placed, with_payload


class AddFieldsSettings(Settings):
    """`transforms.add_fields`: fields with fixed values, and copies of other fields."""

    fields: Mapping[FieldPath, Any] = Field(default_factory=dict)
    """Value by path, such as `{ "source.site" = "berlin" }`. Objects on the path are made."""
    copies: Mapping[FieldPath, ReadPath] = Field(default_factory=dict)
    """Path of the field to copy by path of the new one; a field that is missing is not copied."""
    overwrite: bool = True
    """Replace fields that exist; otherwise they stay as they are."""

    @model_validator(mode="after")
    def _adds_each_field_once(self) -> Self:
        if not self.fields and not self.copies:
            raise ValueError("adds nothing: set fields or copies")
        paths = [*self.fields, *self.copies]
        for path in paths:
            if paths.count(path) > 1:
                raise ValueError(f"{path} is in fields and in copies: remove it from one of them")
            around = next((other for other in paths if path.startswith(f"{other}.")), None)
            if around is not None:
                raise ValueError(f"{path} is within {around}, which is added, too: write it into the value of {around}")
        return self


class AddFields(Transform):
    """Adds fields to objects."""

    settings_type: ClassVar[type[Settings]] = AddFieldsSettings

    def __init__(self, settings: AddFieldsSettings) -> None:
        """Parse the paths."""
        self._fields = [(parse_path(path), value) for path, value in settings.fields.items()]
        self._copies = [(parse_path(path), parse_path(source)) for path, source in settings.copies.items()]
        self._overwrite = settings.overwrite

    def apply(self, record: Record) -> Record:
        """Return the record with the fields.

        Raises:
            InvalidRecord: The payload, or something on a path, is no object.
        """
        payload = original = object_of(record)
        for path, value in self._fields:
            if self._overwrite or value_at(payload, path) is MISSING:
                payload = placed(payload, path, value)
        for path, source in self._copies:
            value = value_at(original, source)
            if value is not MISSING and (self._overwrite or value_at(payload, path) is MISSING):
                payload = placed(payload, path, value)
        return with_payload(record, payload)


class DeleteFieldsSettings(Settings):
    """`transforms.delete_fields`: fields to remove."""

    fields: Annotated[tuple[ReadPath, ...], Field(min_length=1)]
    """Paths of the fields."""


class DeleteFields(Transform):
    """Removes fields from objects."""

    settings_type: ClassVar[type[Settings]] = DeleteFieldsSettings

    def __init__(self, settings: DeleteFieldsSettings) -> None:
        """Parse the paths."""
        self._paths = [parse_path(path) for path in settings.fields]

    def apply(self, record: Record) -> Record:
        """Return the record without the fields.

        Raises:
            InvalidRecord: The payload is no object.
        """
        payload: Any = object_of(record)
        for path in self._paths:
            payload = without(payload, path)
        return with_payload(record, payload)


class FilterFieldsSettings(Settings):
    """`transforms.filter_fields`: fields to keep."""

    fields: Annotated[tuple[ReadPath, ...], Field(min_length=1)]
    """Paths of the fields that are kept; all others are removed."""


class FilterFields(Transform):
    """Keeps some fields of objects, and removes all others."""

    settings_type: ClassVar[type[Settings]] = FilterFieldsSettings

    def __init__(self, settings: FilterFieldsSettings) -> None:
        """Parse the paths."""
        # The outer ones first: a field within one that is kept as a whole is there already.
        self._paths = sorted(map(parse_path, settings.fields), key=len)

    def apply(self, record: Record) -> Record:
        """Return the record with these fields alone.

        Raises:
            InvalidRecord: The payload is no object.
        """
        payload = object_of(record)
        kept: dict[str, Any] = {}
        for path in self._paths:
            value = value_at(payload, path)
            if value is not MISSING and value_at(kept, path) is MISSING:
                kept = placed(kept, path, value)
        return with_payload(record, kept)


class RenameFieldsSettings(Settings):
    """`transforms.rename_fields`: other names for fields."""

    fields: Annotated[Mapping[ReadPath, FieldPath], Field(min_length=1)]
    """New path by present path, such as `{ "user.mail" = "email" }`, in this order. A field that is missing stays
    missing, and one that has the new name is replaced.
    """

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = list(self.fields.values())
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"two fields get the name {repeated}: one would replace the other")
        for old, new in self.fields.items():
            if new == old or new.startswith(f"{old}."):
                raise ValueError(f"{old} cannot become {new}: choose a name outside of it")
        return self


class RenameFields(Transform):
    """Renames and moves fields of objects."""

    settings_type: ClassVar[type[Settings]] = RenameFieldsSettings

    def __init__(self, settings: RenameFieldsSettings) -> None:
        """Parse the paths."""
        self._paths = [(parse_path(old), parse_path(new)) for old, new in settings.fields.items()]

    def apply(self, record: Record) -> Record:
        """Return the record with the new names.

        Raises:
            InvalidRecord: The payload, or something on a new path, is no object.
        """
        payload: Any = object_of(record)
        for old, new in self._paths:
            value = value_at(payload, old)
            if value is not MISSING:
                payload = placed(without(payload, old), new, value)
        return with_payload(record, payload)


class SplitSettings(Settings):
    """`transforms.split`: a list as records of their own."""

    field: ReadPath | None = None
    """Path of the list; not set: the payload itself is the list."""


class Split(Transform):
    """Makes a record of each element of a list."""

    settings_type: ClassVar[type[Settings]] = SplitSettings

    def __init__(self, settings: SplitSettings) -> None:
        """Parse the path."""
        self._path = () if settings.field is None else parse_path(settings.field)

    def apply(self, record: Record) -> Sequence[Record]:
        """Return a record for each element, with an id of its own and everything else of the whole.

        Raises:
            InvalidRecord: There is no list.
        """
        elements = value_at(decoded(record), self._path)
        if not isinstance(elements, list | tuple):
            place = ".".join(self._path) or "the payload"
            found = "missing" if elements is MISSING else f"a {type(elements).__name__}"
            raise InvalidRecord(f"{place} is {found}, not a list")
        return [
            Record(
                element,
                id=stable_id("split", record.id, number) if record.id else 0,
                headers=record.headers,
                destination=record.destination,
                table=record.table,
            )
            for number, element in enumerate(elements)
        ]
