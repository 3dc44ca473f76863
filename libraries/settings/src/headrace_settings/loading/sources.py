"""Sources of settings, each converted to values by path with their origin."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, get_origin

from headrace_settings.errors import Problem
from headrace_settings.loading.toml_lines import lines_of_keys
from headrace_settings.origin import EnvironmentOrigin, FileOrigin, OptionOrigin, Origin
from headrace_settings.section import Path, Setting


@dataclass(slots=True)
class Collected:
    """Values by path, later ones replacing earlier ones, and all errors found."""

    settings: tuple[Setting, ...]
    former: Mapping[str, str] = field(default_factory=dict)
    """Dotted names of earlier releases, each with the name of the same setting now."""
    values: dict[Path, tuple[Any, Origin]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def put(self, setting: Setting, value: Any, origin: Origin) -> None:
        """Set a value."""
        self.values[setting.path] = (value, origin)

    @property
    def by_name(self) -> dict[str, Setting]:
        """Settings by dotted name, former names included."""
        current = {setting.dotted: setting for setting in self.settings}
        return current | {former: current[name] for former, name in self.former.items()}

    def put_secret_file(self, setting: Setting, file: Any, origin: Origin) -> None:
        """Set a value from the contents of the file that holds a secret."""
        try:
            text = FilePath(str(file)).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self.problems.append(Problem(f"{setting.dotted}_file", f"cannot read {file}: {error}", origin))
        else:
            self.put(setting, text.removesuffix("\n").removesuffix("\r"), origin)

    def given_twice(self, name: str, other: str, origin: Origin) -> None:
        """Report a setting that was given by two names."""
        self.problems.append(Problem(name, f"is set together with {other}; set only one of them", origin))

    def unknown(self, name: str, known: Iterable[str], origin: Origin) -> None:
        """Report an unknown name, with the most similar known one."""
        nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
        self.problems.append(Problem(name, "unknown setting", origin, nearest=nearest[0] if nearest else None))


def read_file(collected: Collected, file: FilePath) -> None:
    """Read a TOML file."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        collected.problems.append(Problem(str(file), f"cannot be read: {error}"))
        return
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        collected.problems.append(Problem(str(file), f"is not TOML: {error}"))
        return
    _FileReader(collected, file, lines_of_keys(text.replace("\r\n", "\n"))).table(document, ())


class _FileReader:
    def __init__(self, collected: Collected, file: FilePath, lines: Mapping[Path, int]) -> None:
        self._collected = collected
        self._file = file
        self._lines = lines
        self._settings = {setting.path: setting for setting in collected.settings}
        self._former = {tuple(name.split(".")): collected.by_name[name] for name in collected.former}
        self._tables = {path[:depth] for path in self._settings for depth in range(1, len(path))}
        self._secret_files = {
            (*path[:-1], f"{path[-1]}_file"): setting for path, setting in self._settings.items() if setting.is_secret
        }

    def table(self, table: Mapping[str, Any], prefix: Path) -> None:
        for name, value in table.items():
            path = (*prefix, name)
            if path in self._settings:
                self._collected.put(self._settings[path], value, self._origin(path))
            elif path in self._former:
                self._former_name(table, path, value)
            elif path in self._tables and isinstance(value, dict):
                self.table(value, path)
            elif path in self._tables:
                problem = Problem(".".join(path), "is a table of settings, not one setting", self._origin(path))
                self._collected.problems.append(problem)
            elif path in self._secret_files:
                self._secret_file(table, path, value)
            else:
                self._unknown(path, value)

    def _former_name(self, table: Mapping[str, Any], path: Path, value: Any) -> None:
        setting = self._former[path]
        if setting.path[-1] in table:
            self._collected.given_twice(".".join(path), setting.dotted, self._origin(path))
        else:
            self._collected.put(setting, value, self._origin(path))

    def _secret_file(self, table: Mapping[str, Any], path: Path, value: Any) -> None:
        setting = self._secret_files[path]
        if setting.path[-1] in table:
            self._collected.given_twice(".".join(path), setting.dotted, self._origin(path))
            return
        self._collected.put_secret_file(setting, value, self._origin(path))

    def _unknown(self, path: Path, value: Any) -> None:
        # An unknown table is compared by its contents, which are more distinctive than its name.
        while isinstance(value, dict) and value:
            name, value = next(iter(value.items()))
            path = (*path, name)
        names = [setting.dotted for setting in self._collected.settings]
        self._collected.unknown(".".join(path), names, self._origin(path))

    def _origin(self, path: Path) -> FileOrigin:
        for depth in range(len(path), 0, -1):
            if path[:depth] in self._lines:
                return FileOrigin(self._file, self._lines[path[:depth]])
        return FileOrigin(self._file, None)


def read_environment(
    collected: Collected,
    environment: Mapping[str, str],
    *,
    prefix: str,
    aliases: Mapping[str, str],
    reserved: Collection[str],
) -> None:
    """Read every variable that starts with the prefix, and the aliases. An empty value counts as unset.

    Args:
        collected: Receives the values.
        environment: The variables.
        prefix: Prefix without the underscore, for example ``HEADRACE``.
        aliases: Other variables by the dotted name of the setting that they stand for. The setting's own
            variable wins over them.
        reserved: Variables with the prefix that have another purpose.
    """
    by_name = collected.by_name
    for variable, dotted in aliases.items():
        if environment.get(variable):
            put_text(collected, by_name[dotted], environment[variable], EnvironmentOrigin(variable))
    plain = {setting.variable(prefix): setting for setting in collected.settings}
    former = {f"{prefix}_{name}".replace(".", "_").upper(): by_name[name] for name in collected.former}
    files = {f"{name}_FILE": setting for name, setting in plain.items() if setting.is_secret}
    for variable in sorted(environment):
        value, origin = environment[variable], EnvironmentOrigin(variable)
        if not variable.startswith(f"{prefix}_") or not value or variable in reserved:
            continue
        if variable in plain:
            put_text(collected, plain[variable], value, origin)
        elif variable in former:
            current = former[variable].variable(prefix)
            if environment.get(current):
                collected.given_twice(variable, current, origin)
            else:
                put_text(collected, former[variable], value, origin)
        elif variable in files:
            if environment.get(variable.removesuffix("_FILE")):
                collected.given_twice(variable, variable.removesuffix("_FILE"), origin)
            else:
                collected.put_secret_file(files[variable], value, origin)
        else:
            collected.unknown(variable, [*plain, *files], origin)


def read_options(collected: Collected, options: Mapping[str, tuple[str, str]]) -> None:
    """Read values from a command line: the option as typed and its text, by the setting's dotted name."""
    by_name = collected.by_name
    for dotted, (option, text) in options.items():
        put_text(collected, by_name[dotted], text, OptionOrigin(option))


def put_text(collected: Collected, setting: Setting, text: str, origin: Origin) -> None:
    """Set a value from the text of a variable or an option."""
    if get_origin(setting.field.annotation) in (list, tuple):
        collected.put(setting, _split_list(text), origin)
    else:
        collected.put(setting, text if setting.is_secret else text.strip(), origin)


def _split_list(text: str) -> list[str]:
    inner = text.strip().removeprefix("[").removesuffix("]")
    return [part.strip().strip("\"'") for part in inner.split(",") if part.strip()]
