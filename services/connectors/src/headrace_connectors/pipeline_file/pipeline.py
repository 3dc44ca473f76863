"""The pipeline file as a whole."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final

from headrace_connectors.contract import Codec, ConnectorError, Opaque, Pipelined, Sink, Source, Transform
from headrace_connectors.pipeline_file.models import (
    HttpSettings,
    RuntimeSettings,
    ServerSettings,
    SharingSettings,
    SinkSettings,
    SourceSettings,
    StateSettings,
    TableDestination,
    TopicName,
)
from headrace_connectors.pipeline_file.secrets import paths_written_out
from headrace_connectors.pipeline_file.syntax import syntax_problem
from headrace_connectors.pipeline_file.tables import Model, Tables, reason_of
from headrace_connectors.plugins.discovery import Plugins
from headrace_settings import Path, Problem, Section, SettingsError

_TOP: Final[dict[str, type[Section]]] = {
    "server": ServerSettings,
    "http": HttpSettings,
    "runtime": RuntimeSettings,
    "state": StateSettings,
    "sharing": SharingSettings,
}
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_OWN: Final = ("settings", "codec_settings", "transforms")


@dataclass(frozen=True, slots=True)
class ConfiguredPlugin:
    """A plugin with its settings, not created yet."""

    name: str
    """Name in the file."""
    kind: type[Any]
    settings: Section

    def create(self) -> Any:
        """Create it."""
        return self.kind(self.settings)


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source as the file describes it."""

    key: str
    settings: SourceSettings
    source: ConfiguredPlugin
    codec: ConfiguredPlugin
    transforms: tuple[ConfiguredPlugin, ...]

    @property
    def is_routed(self) -> bool:
        """True if records have destinations of their own."""
        return self.settings.routing is not None or any(transform.kind.is_routing for transform in self.transforms)


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """A sink as the file describes it."""

    key: str
    settings: SinkSettings
    sink: ConfiguredPlugin
    codec: ConfiguredPlugin
    transforms: tuple[ConfiguredPlugin, ...]


class Definitions:
    """Tables of connectors and mappings as they are written, and the checks of others that may take their place.

    Args:
        file: The pipeline file, which relative paths start at.
        plugins: The installed plugins.
        environment: Variables that ``${NAME}`` refers to.
        tree: The file, parsed.
    """

    def __init__(
        self, file: FilePath, plugins: Plugins, environment: Mapping[str, str], tree: Mapping[str, Any]
    ) -> None:
        self.file = file
        self.plugins = plugins
        self._environment = environment
        self._tree = tree

    def tables(self, kind: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the tables of the file below `sources`, `sinks` or `mappings`, by name."""
        found: Mapping[str, Mapping[str, Any]] = self._tree.get(kind, {})
        return found

    def connector(self, kind: str, key: str, table: Mapping[str, Any]) -> SourceSpec | SinkSpec:
        """Check a table as if it were below `sources` or `sinks` of the file.

        Raises:
            SettingsError: Everything that is wrong in it.
        """
        reader = _Reader(Tables(self.file, "", self._environment), self.plugins)
        return reader.connector(kind, key, table)

    def mapping(self, name: str, table: Mapping[str, Any]) -> Mapping[str, TableDestination]:
        """Check a table as if it were below `mappings` of the file.

        Raises:
            SettingsError: Everything that is wrong in it.
        """
        reader = _Reader(Tables(self.file, "", self._environment), self.plugins)
        return reader.mapping(name, table)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Everything in a pipeline file."""

    file: FilePath
    server: ServerSettings
    http: HttpSettings
    runtime: RuntimeSettings
    sharing: SharingSettings = field(default_factory=SharingSettings)
    sources: Mapping[str, SourceSpec] = field(default_factory=dict)
    sinks: Mapping[str, SinkSpec] = field(default_factory=dict)
    mappings: Mapping[str, Mapping[str, TableDestination]] = field(default_factory=dict)
    """Destinations by value, by name of the mapping, for the transform `route`."""
    definitions: Definitions = field(kw_only=True, repr=False)
    """The tables as they are written, and how others are checked."""

    def creates(self, topic: TopicName) -> bool:
        """Return whether a source of this file may create a topic: one that names it, or that has a routing."""
        place = (topic.stream, topic.topic)
        return any(
            spec.settings.enabled
            and spec.settings.topic_defaults.create
            and (spec.is_routed or place == (spec.settings.stream, spec.settings.topic))
            for spec in self.sources.values()
        )

    @property
    def state_directory(self) -> FilePath:
        """Absolute path of the directory with the states; a relative one is beside the pipeline file."""
        return (self.file.absolute().parent / FilePath(self.runtime.state_directory).expanduser()).absolute()


def read_pipeline(file: FilePath, plugins: Plugins, environment: Mapping[str, str]) -> Pipeline:
    """Read and check a pipeline file. Nothing is started or connected to.

    Raises:
        SettingsError: Everything that is wrong in it, each with its line.
    """
    try:
        # With or without a byte order mark, which some editors write.
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        advice = "correct the path; `headrace connect new PLUGIN` prints a pipeline file"
        raise SettingsError([Problem(str(file), f"cannot be read: {reason_of(error)}; {advice}")]) from error
    return parse_pipeline(file, text, plugins, environment)


def parse_pipeline(file: FilePath, text: str, plugins: Plugins, environment: Mapping[str, str]) -> Pipeline:
    """Check the text of a pipeline file, as `read_pipeline`."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([syntax_problem(file, text, error)]) from error
    definitions = Definitions(file, plugins, environment, tree)
    return _Reader(Tables(file, text, environment), plugins).pipeline(tree, definitions)


class _Reader:
    def __init__(self, tables: Tables, plugins: Plugins) -> None:
        self._tables = tables
        self._plugins = plugins

    def connector(self, kind: str, key: str, table: Mapping[str, Any]) -> SourceSpec | SinkSpec:
        spec = self._source(key, dict(table)) if kind == "sources" else self._sink(key, dict(table))
        if self._tables.problems or spec is None:
            raise SettingsError(self._tables.problems)
        return spec

    def mapping(self, name: str, table: Mapping[str, Any]) -> Mapping[str, TableDestination]:
        found = self._mapping(name, table)
        if self._tables.problems:
            raise SettingsError(self._tables.problems)
        return found

    def pipeline(self, tree: Mapping[str, Any], definitions: Definitions) -> Pipeline:
        tables = self._tables
        known = (*_TOP, "sources", "sinks", "mappings")
        for name in tree:
            if name not in known:
                tables.unknown((name,), "unknown table", list(known))
        top = {name: self._model(kind, tables.table(tree, (name,)), (name,)) for name, kind in _TOP.items()}
        sources = {}
        for key, table in self._tables_of(tree, "sources"):
            if (spec := self._source(key, table)) is not None:
                sources[key] = spec
        sinks = {}
        for key, table in self._tables_of(tree, "sinks"):
            if key in tree.get("sources", {}):
                tables.report(("sinks", key), f"sources.{key} has the same name: rename one, as calls name connectors")
            if (sink := self._sink(key, table)) is not None:
                sinks[key] = sink
        mappings = {name: self._mapping(name, table) for name, table in self._tables_of(tree, "mappings")}
        self._check_sharing(tree, top["state"], top["sharing"], top["http"])
        if tables.problems:
            raise SettingsError(tables.problems)
        http = _filled(top["http"], HttpSettings)
        if not sources and not sinks and not http.configuration.enabled:
            message = f"{tables.file} describes no connector: add [sources.NAME] or [sinks.NAME]"
            raise SettingsError([Problem("sources", message)])
        return Pipeline(
            file=tables.file,
            server=_filled(top["server"], ServerSettings),
            http=http,
            runtime=_filled(top["runtime"], RuntimeSettings),
            sharing=_filled(top["sharing"], SharingSettings),
            sources=sources,
            sinks=sinks,
            mappings=mappings,
            definitions=definitions,
        )

    def _tables_of(self, tree: Mapping[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for key, table in (self._tables.table(tree, (name,)) or {}).items():
            if isinstance(table, dict):
                yield key, table
            else:
                self._tables.report((name, key), f"is a table: write [{name}.{key}] and its settings below")

    def _mapping(self, name: str, table: Mapping[str, Any]) -> dict[str, TableDestination]:
        self._check_name(("mappings", name))
        found = {}
        for value, entry in table.items():
            path = ("mappings", name, value)
            if not isinstance(entry, dict):
                self._tables.report(path, 'is a destination: write { stream = "...", topic = "..." }')
            elif (destination := self._tables.model(TableDestination, entry, path)) is not None:
                found[value] = destination
        return found

    def _source(self, key: str, table: dict[str, Any]) -> SourceSpec | None:
        path = ("sources", key)
        settings = self._own_settings(SourceSettings, table, path)
        source = self._plugged("sources", table, path, "plugin", "settings")
        codec = self._plugged("codecs", {"codec": "json", **table}, path, "codec", "codec_settings")
        transforms = self._transforms(table, path)
        if settings is None or source is None or codec is None or transforms is None:
            return None
        spec = SourceSpec(key, settings, source, codec, transforms)
        self._check_routing(spec, path)
        self._check_guarantee(spec, path)
        self._check_flight(spec, path)
        return spec

    def _sink(self, key: str, table: dict[str, Any]) -> SinkSpec | None:
        path = ("sinks", key)
        settings = self._own_settings(SinkSettings, table, path)
        sink = self._plugged("sinks", table, path, "plugin", "settings")
        codec = self._plugged("codecs", {"codec": "json", **table}, path, "codec", "codec_settings")
        transforms = self._transforms(table, path)
        for transform in transforms or ():
            if transform.kind.is_routing:
                self._tables.report(
                    (*path, "transforms", transform.name),
                    "routes records to topics, which a sink does not write to: remove it, or use it in a source",
                )
        if settings is None or sink is None or codec is None or transforms is None:
            return None
        return SinkSpec(key, settings, sink, codec, transforms)

    def _own_settings(self, kind: type[Model], table: Mapping[str, Any], path: Path) -> Model | None:
        """Return the settings of a connector that are not those of its plugins."""
        self._check_name(path)
        other = SinkSettings if kind is SourceSettings else SourceSettings
        here, there = ("sources", "sinks") if kind is SourceSettings else ("sinks", "sources")
        elsewhere = dict.fromkeys(set(other.model_fields) - set(kind.model_fields), f"is one of {there}; remove it")
        elsewhere |= {name: f"is a table of its own; write [{name}]" for name in _TOP}
        below = f"is one of the plugin; move it below [{'.'.join(path)}.settings]"
        elsewhere |= dict.fromkeys(self._plugin_fields(here, table), below)
        own = {name: value for name, value in table.items() if name not in _OWN}
        return self._tables.model(kind, own, path, elsewhere)

    def _plugin_fields(self, kind: str, table: Mapping[str, Any]) -> set[str]:
        """Return the settings of the plugin of a connector; none if it is not known, which is reported elsewhere."""
        name = table.get("plugin")
        try:
            loaded = self._plugins.load(kind, name) if isinstance(name, str) else None
        except ConnectorError:
            return set()
        return set() if loaded is None else set(loaded.settings_type.model_fields)

    def _check_name(self, path: Path) -> None:
        if _NAME.fullmatch(path[-1]) is None:
            allowed = '1 to 100 letters, digits, "_", "." and "-", not beginning with "." or "-"'
            self._tables.report(path, f"{path[-1]!r} is not a name: rename it", allowed=allowed)

    def _check_routing(self, spec: SourceSpec, path: Path) -> None:
        settings = spec.settings
        routing = [transform.name for transform in spec.transforms if transform.kind.is_routing]
        if settings.routing is not None and routing:
            self._tables.report(
                (*path, "routing"),
                f"excludes the transform {routing[0]}, which routes, too: keep one of them",
            )
        if not spec.is_routed and settings.stream is None:
            self._tables.report((*path, "stream"), "is not set: set stream and topic, or routing")

    def _check_guarantee(self, spec: SourceSpec, path: Path) -> None:
        if spec.settings.delivery.guarantee != "exactly_once" or self._tables.problems:
            return
        if isinstance(spec.source.create().mode(), Opaque):
            self._tables.report(
                (*path, "delivery", "guarantee"),
                f"the senders of the plugin {spec.source.name} may send a record twice: remove it, and let readers "
                "drop messages with the same id",
            )

    def _check_flight(self, spec: SourceSpec, path: Path) -> None:
        if spec.settings.delivery.batches_in_flight == 1:
            return
        kind, name = spec.source.kind, spec.source.name
        reason: str | None = f"the plugin {name} is not (`Pipelined`): choose another one"
        if issubclass(kind, Pipelined):
            reason = kind.pipelining_refusal(spec.source.settings)
        if reason is not None:
            self._tables.report(
                (*path, "delivery", "batches_in_flight"),
                f"needs a source that is polled ahead, and {reason}; or set it to 1",
            )

    def _check_sharing(
        self, tree: Mapping[str, Any], state: Section | None, sharing: Section | None, http: Section | None
    ) -> None:
        if not isinstance(state, StateSettings) or not isinstance(sharing, SharingSettings):
            return
        if isinstance(http, HttpSettings) and http.configuration.enabled and sharing.group is not None:
            self._check_secrets(tree)
        if state.kind == "topic" and sharing.group is None:
            self._tables.report(("state", "kind"), "states in a topic belong to a group: set sharing.group")
        if state.kind == "file" and sharing.group is not None:
            self._tables.report(
                ("state", "kind"), 'other processes of the group cannot read files: set "topic", or remove it'
            )

    def _check_secrets(self, tree: Mapping[str, Any]) -> None:
        for kind in ("sources", "sinks"):
            tables = tree.get(kind, {})
            for key, table in tables.items() if isinstance(tables, dict) else ():
                if not isinstance(table, dict):
                    continue
                for path in paths_written_out(kind, table, self._plugins):
                    self._tables.report(
                        (kind, key, *path),
                        "is a secret, and with http.configuration the versions of this table are in the topic of "
                        "sharing.group: write ${NAME} of a variable of the environment in place of it, or "
                        f"{path[-1]}_file",
                    )

    def _transforms(self, table: Mapping[str, Any], path: Path) -> tuple[ConfiguredPlugin, ...] | None:
        found: list[ConfiguredPlugin | None] = []
        path = (*path, "transforms")
        for name, settings in (self._tables.table(table, path) or {}).items():
            if not isinstance(settings, dict):
                self._tables.report((*path, name), "is a table: write its settings below a header of its own")
                found.append(None)
                continue
            entry = {"plugin": name, "settings": {k: v for k, v in settings.items() if k != "plugin"}}
            if "plugin" in settings:
                entry["plugin"] = settings["plugin"]
            found.append(self._plugged("transforms", entry, (*path, name), "plugin", "settings", is_flat=True))
        plugged = [one for one in found if one is not None]
        return tuple(plugged) if len(plugged) == len(found) else None

    def _plugged(
        self,
        kind: str,
        table: Mapping[str, Any],
        path: Path,
        name_key: str,
        settings_key: str,
        *,
        is_flat: bool = False,
    ) -> ConfiguredPlugin | None:
        name = table.get(name_key)
        if not isinstance(name, str):
            # Reported as a setting of the connector, or here for those that have no such model.
            if is_flat:
                self._tables.report((*path, name_key), "is the name of a plugin, as text")
            return None
        name = self._tables.expanded(name, (*path, name_key))
        if not name:
            return None
        try:
            loaded: type[Source | Sink | Transform | Codec] = self._plugins.load(kind, name)
        except ConnectorError as error:
            self._tables.report((*path, name_key) if name_key in table else path, str(error))
            return None
        settings_path = path if is_flat else (*path, settings_key)
        given = table.get(settings_key, {}) if is_flat else self._tables.table(table, settings_path)
        settings = None
        if given is not None:
            elsewhere = {} if is_flat else self._misplaced(kind, table, given, path)
            settings = self._tables.model(loaded.settings_type, given, settings_path, elsewhere)
        return None if settings is None else ConfiguredPlugin(name if not is_flat else path[-1], loaded, settings)

    def _misplaced(
        self, kind: str, table: Mapping[str, Any], given: Mapping[str, Any], path: Path
    ) -> Mapping[str, str]:
        """Return settings of the connector among those of its plugin, with advice, and the reverse, without."""
        own = SinkSettings if kind == "sinks" else SourceSettings
        above = f"is one of the connector; move it below [{'.'.join(path)}], above other tables"
        return {name: "" for name in table if name not in own.model_fields} | {
            name: above for name in given if name in own.model_fields
        }

    def _model(self, kind: type[Model], table: Mapping[str, Any] | None, path: Path) -> Model | None:
        return None if table is None else self._tables.model(kind, table, path)


def _filled(model: Section | None, kind: type[Model]) -> Model:
    if not isinstance(model, kind):
        raise AssertionError("a table without problems has its model")
    return model
