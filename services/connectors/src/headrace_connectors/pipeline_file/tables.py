"""Tables of a pipeline file as models, with every mistake at its line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from headrace_connectors.pipeline_file.mistakes import message_of, missing_of
from headrace_settings import FileOrigin, Path, Problem, Secret, Section, Setting
from headrace_settings.loading.toml_lines import lines_of_keys

Model = TypeVar("Model", bound=Section)

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HALF_VARIABLE: Final = re.compile(r"\$\{(?![A-Za-z_][A-Za-z0-9_]*\})")
_OWN_TABLES: Final = ("settings", "codec_settings", "transforms")
"""Tables of a connector that its plugins describe."""


class Tables:
    """The text of a file, and what was found wrong in it."""

    def __init__(self, file: FilePath, text: str, environment: Mapping[str, str]) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self._lines = lines_of_keys(text.replace("\r\n", "\n"))
        self._environment = environment
        self._unread: set[Path] = set()
        """Secrets whose files cannot be read."""

    def origin(self, path: Path) -> FileOrigin:
        """Line of a key, or of the table around it."""
        for depth in range(len(path), 0, -1):
            if path[:depth] in self._lines:
                return FileOrigin(self.file, self._lines[path[:depth]])
        # A table that has only tables within it has no line of its own.
        return FileOrigin(
            self.file, next((line for key, line in self._lines.items() if key[: len(path)] == path), None)
        )

    def report(self, path: Path, message: str, *, allowed: str = "", nearest: str | None = None) -> None:
        """Report a mistake, once."""
        problem = Problem(".".join(path), message, self.origin(path), allowed=allowed, nearest=nearest)
        if problem not in self.problems:
            self.problems.append(problem)

    def unknown(self, path: Path, message: str, known: Iterator[str] | list[str]) -> None:
        """Report a name that does not exist, with the most similar one, or with all if they are few."""
        names = sorted(known)
        nearest = difflib.get_close_matches(path[-1], names, n=1, cutoff=0.6)
        allowed = "" if nearest or len(names) > 24 else ", ".join(names) or "nothing"
        self.report(path, message, allowed=allowed, nearest=nearest[0] if nearest else None)

    def table(self, tree: Mapping[str, Any], path: Path) -> dict[str, Any] | None:
        """Return a table of the file; None, with a report, if something else is there."""
        value = tree.get(path[-1], {})
        if isinstance(value, dict):
            return value
        self.report(path, "is a table of settings, not one setting")
        return None

    def model(
        self, kind: type[Model], table: Mapping[str, Any], path: Path, elsewhere: Mapping[str, str] | None = None
    ) -> Model | None:
        """Return a table as its model; None, with reports, if it is not valid.

        Args:
            kind: The model.
            table: The table.
            path: Its path in the file.
            elsewhere: Settings of other tables that may be here by mistake, with advice. One without advice is reported
                there, so that it is not missed here.
        """
        before = len(self.problems)
        values = self._completed(kind, table, path)
        is_complete = len(self.problems) == before
        try:
            filled = kind.model_validate(values)
        except ValidationError as error:
            for details in error.errors(include_url=False, include_input=True):
                # Checks of a table as a whole make no sense while a part of it is not known.
                if is_complete or details["loc"]:
                    self._refused(kind, details, path, elsewhere or {})
            return None
        return filled if len(self.problems) == before else None

    def _completed(self, kind: type[Section], table: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """Replace variables of the environment, and files with secrets by their contents."""
        values: dict[str, Any] = {}
        for name, value in table.items():
            secret = name.removesuffix("_file")
            if secret != name and name not in kind.model_fields and _is_secret(kind, secret):
                if secret in table:
                    self.report((*path, name), f"is set together with {secret}; set only one of them")
                elif (text := self._secret(value, (*path, name))) is None:
                    self._unread.add((*path, secret))
                else:
                    values[secret] = text
                continue
            field = kind.model_fields.get(name)
            inner = field.annotation if field is not None else None
            if isinstance(value, dict) and (section := _section(inner)) is not None:
                values[name] = self._completed(section, value, (*path, name))
            else:
                values[name] = self.expanded(value, (*path, name))
        return values

    def _secret(self, file: Any, path: Path) -> str | None:
        if not isinstance(file, str):
            self.report(path, "is the path of a file, as text")
            return None
        name = FilePath(self.expanded(file, path)).expanduser()
        try:
            return (self.file.parent / name).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            self.report(path, f"cannot read {name}: {reason_of(error)}; correct the path, or the file")
            return None

    def expanded(self, value: Any, path: Path) -> Any:
        """Replace ``${NAME}`` in texts by the variable of the environment."""
        if isinstance(value, list):
            return [self.expanded(item, path) for item in value]
        if isinstance(value, dict):
            return {name: self.expanded(item, (*path, name)) for name, item in value.items()}
        if not isinstance(value, str):
            return value

        def variable(match: re.Match[str]) -> str:
            if match[1] not in self._environment:
                self.report(path, f"the environment variable {match[1]} is not set: set it, or write the value itself")
            return self._environment.get(match[1], "")

        if _HALF_VARIABLE.search(value):
            self.report(path, "${ begins the name of a variable of the environment: write ${NAME}")
        return _VARIABLE.sub(variable, value)

    def _refused(self, kind: type[BaseModel], details: ErrorDetails, path: Path, elsewhere: Mapping[str, str]) -> None:
        location = tuple(str(part) for part in details["loc"] if isinstance(part, str))
        full = (*path, *location)
        if details["type"] == "extra_forbidden":
            if len(location) == 1 and elsewhere.get(location[0]):
                self.report(full, f"unknown setting: it {elsewhere[location[0]]}")
                return
            owner = _owner(kind, location[:-1])
            own = _OWN_TABLES if location[:-1] == () and "plugin" in kind.model_fields else ()
            self.unknown(full, "unknown setting", [*_names(owner), *own] if owner is not None else [])
            return
        setting = _setting(kind, location)
        if details["type"] == "missing":
            if full not in self._unread and not (len(location) == 1 and elsewhere.get(location[0]) == ""):
                self.report(full, missing_of(details), allowed=_allowed(setting))
            return
        message = message_of(details, setting, _owner(kind, location))
        if not any(problem.setting == ".".join(full) for problem in self.problems):
            self.report(full, message, allowed=_allowed(setting))


def reason_of(error: OSError | UnicodeDecodeError) -> str:
    """Return why a file cannot be read."""
    return "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror or str(error)


def _allowed(setting: Setting | None) -> str:
    """Return the allowed values, if they say more than that it is text."""
    return "" if setting is None or setting.allowed == "text" else setting.allowed


def _names(kind: type[BaseModel]) -> list[str]:
    """Return the names of settings, and those of files with secrets."""
    return [*kind.model_fields, *(f"{name}_file" for name in kind.model_fields if _is_secret(kind, name))]


def _section(annotation: Any) -> type[Section] | None:
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, Section):
            return part
    return None


def _is_secret(kind: type[BaseModel], name: str) -> bool:
    field = kind.model_fields.get(name)
    return field is not None and Secret in (field.annotation, *get_args(field.annotation))


def _owner(kind: type[BaseModel], location: Path) -> type[BaseModel] | None:
    for name in location:
        field = kind.model_fields.get(name)
        if field is None:
            # A name within a table of tables, such as `by_table.NAME`.
            continue
        section = _section(field.annotation)
        if section is None:
            return None
        kind = section
    return kind


def _setting(kind: type[BaseModel], location: Path) -> Setting | None:
    """Return the setting at a place; None for tables, and for names within a table that has any."""
    if not location:
        return None
    owner = _owner(kind, location[:-1])
    field = owner.model_fields.get(location[-1]) if owner is not None else None
    if owner is None or field is None or _section(field.annotation) is not None:
        return None
    return Setting(location, field, owner)
