"""Configurations of all connectors and mappings: which one is active, and changes of it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from headrace_connectors.configuration.errors import (
    ChangedAtOnce,
    ChangedMeanwhile,
    NotChangeable,
    NotFound,
    WrongKind,
)
from headrace_connectors.configuration.limits import Limits, files_in, variables_in
from headrace_connectors.configuration.seen import SeenTables, digest
from headrace_connectors.configuration.store import LocalVersions, Versions, VersionStore
from headrace_connectors.pipeline_file.models import ConfigurationSettings, TableDestination
from headrace_connectors.pipeline_file.pipeline import Definitions, SinkSpec, SourceSpec
from headrace_connectors.pipeline_file.secrets import redacted, written_out
from headrace_connectors.versions import (
    FAMILIES,
    Author,
    Family,
    Kind,
    LogChange,
    NewVersion,
    Selection,
    Version,
    VersionLog,
)
from headrace_settings import Problem, SettingsError

_KEY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_FILE_AUTHOR: Final = "pipeline file"
_log = logging.getLogger(__name__)

Spec = SourceSpec | SinkSpec
Apply = Callable[[str, Spec | None], Awaitable[None]]
"""Stops a connector and starts it with another specification; None: it is deleted."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """A connector whose stored configuration is not valid any more."""

    key: str
    kind: Kind
    plugin: str
    reason: str


@dataclass(frozen=True, slots=True)
class Condition:
    """State that a change is meant for, as epoch; None: any. 0: the connector or mapping does not exist."""

    epoch: int | None = None


ANY_STATE: Final = Condition()
_FILE_KINDS: Final[tuple[Kind, ...]] = ("sources", "sinks", "mappings")


class Configurations:
    """Versions of all connectors and mappings.

    The pipeline file and changes over HTTP are one history: the newest change is in effect. At a start, a table of the
    file that differs from the last one seen is a change; one that is the same is none.

    Args:
        definitions: The pipeline file.
        settings: Kinds of changes that are accepted.
        store: Storage of the versions, if changes are accepted.
        seen: Tables of the last start on this machine, if other processes share the versions.
        clock: Time of changes.
    """

    def __init__(
        self,
        definitions: Definitions,
        settings: ConfigurationSettings,
        store: Versions,
        seen: SeenTables | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._definitions = definitions
        self._store: Versions = store if settings.enabled else LocalVersions()
        self._seen = seen
        self._clock = clock
        self._is_enabled = settings.enabled
        directory, base = settings.secrets_directory, definitions.file.absolute().parent
        own = {(kind, key): table for kind in _FILE_KINDS for key, table in definitions.tables(kind).items()}
        self._limits = Limits(
            settings.variables,
            None if directory is None else base / Path(directory).expanduser(),
            settings.plugins,
            base,
            {of: frozenset(variables_in(table)) for of, table in own.items()},
            {of: frozenset(files_in(table)) for of, table in own.items()},
            settings.destinations,
        )
        self._tables: dict[Family, dict[str, tuple[Kind, dict[str, Any]]]] = {
            "connectors": self._tables_of("sources", "sinks"),
            "mappings": self._tables_of("mappings"),
        }
        self._mappings: dict[str, tuple[int, Mapping[str, TableDestination] | None]] = {}
        """Mappings with the epochs that they belong to; None: it is not valid."""
        self._in_effect: dict[str, int] = {}
        # One change at a time: each is checked against the state that it changes.
        self._changing = asyncio.Lock()

    def _tables_of(self, *kinds: Kind) -> dict[str, tuple[Kind, dict[str, Any]]]:
        return {key: (kind, _plain(table)) for kind in kinds for key, table in self._definitions.tables(kind).items()}

    def open(self) -> list[Spec | Unusable]:
        """Read the versions, note what has changed in the pipeline file, and return the connectors to run.

        Raises:
            ConnectorError: A file cannot be understood.
            OSError: The directory cannot be used.
        """
        store = self._store
        if isinstance(store, VersionStore):
            store.load()
        if not isinstance(store, LocalVersions):
            raise AssertionError("versions of a group are opened with open_shared")
        for family, log, change in self._changes_of_file():
            store.put_now(family, log, change)
        return self._connectors()

    async def open_shared(self) -> list[Spec | Unusable]:
        """Do as `open`, with versions that other processes use at the same time.

        Raises:
            ConnectorError: They cannot be read or changed now, or have no space for the file.
            OSError: The tables of this start cannot be remembered.
        """
        await self._store.catch_up()
        while changes := self._changes_of_file():
            for family, log, change in changes:
                try:
                    await self._store.put(family, log, change)
                except ChangedMeanwhile:
                    # Another process starts with the same file, or a change has come: look again.
                    break
        if self._seen is not None:
            self._seen.save(
                {family: {key: digest(one) for key, one in tables.items()} for family, tables in self._tables.items()}
            )
        return self._connectors()

    def _changes_of_file(self) -> list[tuple[Family, VersionLog, LogChange]]:
        found: list[tuple[Family, VersionLog, LogChange]] = []
        for family in FAMILIES:
            logs, tables = self._store.logs(family), self._tables[family]
            for key in (*tables, *(key for key in logs if key not in tables)):
                log = logs.get(key, VersionLog(key))
                if (change := self._change_of_file(family, log, tables.get(key))) is not None:
                    found.append((family, log, change))
        return found

    def _change_of_file(
        self, family: Family, log: VersionLog, entry: tuple[Kind, dict[str, Any]] | None
    ) -> LogChange | None:
        before, seen = log.newest_of_file, self._seen
        if entry is None:
            is_gone = before is not None and before.definition is not None
            if before is None or not is_gone or (seen is not None and seen.never_had(family, log.key)):
                return None
            author = Author(_FILE_AUTHOR, "removed from the file")
            return NewVersion(self._clock(), author, "file", before.kind, None)
        if before is not None and (
            (before.kind, before.definition) == entry or (seen is not None and seen.has(family, log.key, digest(entry)))
        ):
            return None
        author = Author(_FILE_AUTHOR, f"from {self._definitions.file.name}")
        return NewVersion(self._clock(), author, "file", *entry)

    def _connectors(self) -> list[Spec | Unusable]:
        logs = self._store.logs("connectors")
        # In the order of the file, then those of HTTP alone.
        ordered = [*self._tables["connectors"], *(key for key in logs if key not in self._tables["connectors"])]
        found = [self.successor(key) for key in ordered]
        for name in self._store.logs("mappings"):
            self._mapping(name)
        return [one for one in found if one is not None]

    # ---- what other processes change

    def outdated(self) -> list[str]:
        """Return the connectors that have another configuration than the one that was put into effect here."""
        logs = self._store.logs("connectors")
        return [key for key, log in logs.items() if log.epoch != self._in_effect.get(key, 0)]

    def successor(self, key: str) -> Spec | Unusable | None:
        """Return the active configuration of a connector, which is put into effect; None: it is deleted."""
        log = self._store.logs("connectors")[key]
        self._in_effect[key] = log.epoch
        return self._opened(key, log.active)

    def _opened(self, key: str, active: Version | None) -> Spec | Unusable | None:
        if active is None or active.definition is None:
            return None
        try:
            found: Spec = self._accepted(key, active)
        except SettingsError as error:
            plugin = str(active.definition.get("plugin", ""))
            return Unusable(key, active.kind, plugin, f"version {active.number} is not valid any more: {error}")
        return found

    # ---- reading

    @property
    def are_changeable(self) -> bool:
        """True if changes over HTTP are accepted."""
        return self._is_enabled

    async def catch_up(self) -> None:
        """Read what other processes have changed.

        Raises:
            Unavailable: It cannot be read now.
        """
        await self._store.catch_up()

    def log(self, family: Family, key: str) -> VersionLog:
        """Return the versions of a connector or mapping.

        Raises:
            NotFound: There was never one.
        """
        found = self._store.logs(family).get(key)
        if found is None:
            known = ", ".join(key for key, log in self._store.logs(family).items() if _exists(log)) or "none"
            raise NotFound(f"there is no {family.removesuffix('s')} {key!r}; there are: {known}")
        return found

    def mapping(self, name: str) -> tuple[Mapping[str, TableDestination], VersionLog]:
        """Return a mapping that is in effect.

        Raises:
            NotFound: There is none.
        """
        found = self._mapping(name)
        if found is None:
            known = ", ".join(self.mapping_names) or "none"
            raise NotFound(f"there is no mapping {name!r} of {self._definitions.file}; there are: {known}")
        return found, self._store.logs("mappings")[name]

    @property
    def mapping_names(self) -> list[str]:
        """Names of the mappings in effect."""
        return sorted(name for name in self._store.logs("mappings") if self._mapping(name) is not None)

    def _mapping(self, name: str) -> Mapping[str, TableDestination] | None:
        log = self._store.logs("mappings").get(name)
        if log is None:
            return None
        known = self._mappings.get(name)
        if known is None or known[0] != log.epoch:
            known = self._mappings[name] = (log.epoch, self._mapping_of(name, log.active))
        return known[1]

    def _mapping_of(self, name: str, active: Version | None) -> Mapping[str, TableDestination] | None:
        if active is None or active.definition is None:
            return None
        try:
            found: Mapping[str, TableDestination] = self._accepted(name, active)
        except SettingsError as error:
            _log.error("the mapping %s is not valid any more: %s", name, error)
            return None
        return found

    def shown(self, version: Version) -> dict[str, Any] | None:
        """Return the definition of a version without secrets; None: a deletion."""
        if version.definition is None:
            return None
        return redacted(version.kind, version.definition, self._definitions.plugins)

    # ---- changing

    def check(self, kind: Kind, key: str, definition: Mapping[str, Any]) -> None:
        """Check a definition as `headrace connect lint` checks a file, and what it refers to.

        Raises:
            WrongKind: The name is taken by a connector of the other kind.
            SettingsError: Everything that is wrong in it.
        """
        self._checked(kind, key, definition)

    async def change(
        self, kind: Kind, key: str, definition: Mapping[str, Any], author: Author, condition: Condition, apply: Apply
    ) -> VersionLog:
        """Make a version, and put it into effect.

        Args:
            kind: Table that the definition belongs to.
            key: Name of the connector or mapping.
            definition: Table as in a pipeline file.
            author: Who changes it.
            condition: State that the change is meant for.
            apply: Puts the configuration of a connector into effect.

        Raises:
            NotChangeable: Changes are not accepted.
            ChangedMeanwhile: The state is another one.
            ChangedAtOnce: Another process has changed it at the same time.
            Unavailable: It is not known whether it has changed.
            WrongKind: The name is taken by a connector of the other kind.
            SettingsError: Everything that is wrong in it; nothing has changed.
            NotStored: It cannot be written; nothing has changed.
        """
        async with self._changing:
            await self._store.catch_up()
            log = self._changeable(_family(kind), key, condition)
            checked = self._checked(kind, key, definition)
            change = NewVersion(self._clock(), author, "http", kind, _plain(definition))
            return await self._put(log, change, condition, kind, checked, apply)

    async def activate(
        self, family: Family, key: str, number: int, author: Author, condition: Condition, apply: Apply
    ) -> VersionLog:
        """Put a version into effect, such as an older one. Errors as of `change`.

        Raises:
            NotFound: There is no such version.
        """
        async with self._changing:
            await self._store.catch_up()
            self.log(family, key)
            log = self._changeable(family, key, condition)
            version = log.find(number)
            if version is None:
                numbers = f"{log.versions[0].number} to {log.last_number}" if log.versions else "none"
                raise NotFound(f"{key} has no version {number}; there are: {numbers}")
            checked = None if version.definition is None else self._accepted(key, version)
            change = Selection(self._clock(), author, number)
            return await self._put(log, change, condition, version.kind, checked, apply)

    async def delete(self, family: Family, key: str, author: Author, condition: Condition, apply: Apply) -> VersionLog:
        """Delete a connector or mapping; its versions stay, and can be put into effect again. Errors as of `change`.

        Raises:
            NotFound: There is no such connector or mapping.
        """
        async with self._changing:
            await self._store.catch_up()
            log = self.log(family, key)
            active = log.active
            if active is None or active.definition is None:
                raise NotFound(f"{key} is deleted already")
            log = self._changeable(family, key, condition)
            change = NewVersion(self._clock(), author, "http", active.kind, None)
            return await self._put(log, change, condition, active.kind, None, apply)

    def _changeable(self, family: Family, key: str, condition: Condition) -> VersionLog:
        if not self._is_enabled:
            raise NotChangeable(
                "changes over HTTP are not accepted: set http.configuration.enabled in "
                f"{self._definitions.file}, or change the file and restart the connectors"
            )
        log = self._store.logs(family).get(key, VersionLog(key))
        present = log.epoch if _exists(log) else 0
        if condition.epoch is not None and condition.epoch not in (present, log.epoch):
            raise ChangedMeanwhile(
                f"{key} has changed: its state is {present}, and the change is meant for {condition.epoch}; read it "
                "again, and repeat the change if it is still right"
            )
        return log

    def _checked(self, kind: Kind, key: str, definition: Mapping[str, Any]) -> Any:
        if _KEY.fullmatch(key) is None:
            problem = (
                f'{key!r} is not a name: 1 to 100 letters, digits, "_", "." and "-", not beginning with "." or "-"'
            )
            raise SettingsError([Problem(kind, problem)])
        active = log.active if (log := self._store.logs(_family(kind)).get(key)) is not None else None
        if active is not None and active.definition is not None and active.kind != kind:
            raise WrongKind(f"{key} is in {active.kind}, and not in {kind}: choose another name, or delete it first")
        problems = [
            *written_out(kind, key, definition, self._definitions.plugins),
            *self._limits.problems(kind, key, definition, self._definitions.plugins),
        ]
        if problems:
            raise SettingsError(problems)
        return self._valid(kind, key, definition)

    def _accepted(self, key: str, version: Version) -> Any:
        definition = version.definition or {}
        own = self._tables[_family(version.kind)].get(key)
        is_of_file = version.origin == "file" and (self._seen is None or own == (version.kind, definition))
        if not is_of_file:
            # The pipeline file may allow less than when the version was made, or than the file of another machine.
            problems = self._limits.problems(version.kind, key, definition, self._definitions.plugins)
            if problems:
                raise SettingsError(problems)
        return self._valid(version.kind, key, definition)

    def _valid(self, kind: Kind, key: str, definition: Mapping[str, Any]) -> Any:
        if kind != "mappings":
            return self._definitions.connector(kind, key, definition)
        if not definition:
            raise SettingsError([Problem(f"mappings.{key}", "is empty: it would route no record; delete it instead")])
        return self._definitions.mapping(key, definition)

    async def _put(
        self, log: VersionLog, change: LogChange, condition: Condition, kind: Kind, checked: Any, apply: Apply
    ) -> VersionLog:
        family = _family(kind)
        try:
            changed = await self._store.put(family, log, change)
        except ChangedMeanwhile as error:
            if condition.epoch is None:
                raise ChangedAtOnce(str(error)) from error
            raise
        if family == "connectors":
            await apply(log.key, checked)
        return changed


def _family(kind: Kind) -> Family:
    return "mappings" if kind == "mappings" else "connectors"


def _exists(log: VersionLog) -> bool:
    return (active := log.active) is not None and active.definition is not None


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table as it is stored, so that one that was read again compares as equal."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(table))
    return plain
