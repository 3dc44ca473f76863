"""Fields that settings name, compared with those that a source states without a connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace_connectors.contract import Source
from headrace_connectors.pipeline_file.pipeline import ConfiguredPlugin, Pipeline, SourceSpec
from headrace_connectors.routing.paths import parse_path
from headrace_connectors.runtime.trials.fields import columns_of, fields_of


@dataclass(slots=True)
class Compared:
    """Outcome for a pipeline file."""

    mistakes: list[str] = field(default_factory=list)
    """Fields that no record can have."""
    unknown: list[str] = field(default_factory=list)
    """Fields that only records show."""


def compare_fields(pipeline: Pipeline) -> Compared:
    """Compare the fields that settings name with those that the sources state; nothing is connected to."""
    compared = Compared()
    for source in pipeline.sources.values():
        _of_source(source, compared)
    for sink in pipeline.sinks.values():
        _note(f"sinks.{sink.key}", _of_plugged([*sink.transforms, sink.sink]), compared)
    return compared


def _of_source(spec: SourceSpec, compared: Compared) -> None:
    place = f"sources.{spec.key}"
    kind: type[Source] = spec.source.kind
    stated = kind.record_fields(spec.source.settings)
    # Routing and the first transform get the records of the source, and later ones what the transform before returns.
    unknown = [("routing", columns_of(spec.settings.routing)), *_of_plugged(spec.transforms)]
    if stated is not None:
        early, unknown = unknown[:2], unknown[2:]
        compared.mistakes += [
            f"{place}: {table}.{setting}: no record has the field {path!r}; they have {', '.join(stated)}"
            for table, fields in early
            for path, setting in fields.items()
            if parse_path(path)[0] not in stated
        ]
    _note(place, unknown, compared)


def _of_plugged(plugged: Sequence[ConfiguredPlugin]) -> list[tuple[str, dict[str, str]]]:
    """Return the paths of each, with the names of their settings."""
    return [(one.name, fields_of(one.settings)) for one in plugged]


def _note(place: str, named: Sequence[tuple[str, dict[str, str]]], compared: Compared) -> None:
    texts = [f"{table}.{setting} = {path!r}" for table, fields in named for path, setting in fields.items()]
    if texts:
        compared.unknown.append(f"{place}: {', '.join(texts)}")
