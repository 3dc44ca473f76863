"""Pipeline files and plugins, for `headrace connect`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Final, cast

from headrace.cli.errors import CommandError
from headrace.sdk.errors import HeadraceError
from headrace_connectors.app import tried
from headrace_connectors.commands.documents import PluginDocument, TrialDocument
from headrace_connectors.contract import CONTRACT_VERSION, ConnectorError
from headrace_connectors.pipeline_file.pipeline import Pipeline, read_pipeline
from headrace_connectors.pipeline_file.template import sink_template, source_template
from headrace_connectors.plugins.discovery import Plugins
from headrace_connectors.runtime.trials.stated_fields import compare_fields

_TRIAL_SECONDS: Final = 5.0


def read(file: Path) -> Pipeline:
    """Read a pipeline file.

    Raises:
        SettingsError: Everything that is wrong in it, each with its line.
    """
    return read_pipeline(file, Plugins(), os.environ)


def unknown_fields(pipeline: Pipeline) -> list[str]:
    """Return the fields that settings name and only records show, a text for each connector.

    Raises:
        CommandError: Settings name fields that no record can have.
    """
    compared = compare_fields(pipeline)
    if compared.mistakes:
        raise CommandError("\n".join(compared.mistakes))
    return compared.unknown


def template(plugin: str, kind: str | None) -> str:
    """Return a pipeline file to be completed.

    Args:
        plugin: Name of a source or sink.
        kind: ``sources`` or ``sinks``; None: a source if there is one of this name, and a sink otherwise.

    Raises:
        CommandError: There is no such plugin.
    """
    plugins = Plugins()
    if kind is None:
        is_sink = plugin in plugins.names("sinks") and plugin not in plugins.names("sources")
        kind = "sinks" if is_sink else "sources"
    try:
        return (sink_template if kind == "sinks" else source_template)(plugins, plugin)
    except ConnectorError as error:
        raise CommandError(f"{error} (`headrace connect plugins` lists them)") from error


def plugins() -> list[PluginDocument]:
    """Return the installed plugins."""
    return [
        PluginDocument(
            kind=cast("Any", one.kind.removesuffix("s")),
            name=one.name,
            distribution=one.distribution,
            version=one.version,
            contract=one.contract,
            is_usable=one.contract == CONTRACT_VERSION,
        )
        for one in Plugins().installed()
    ]


def trials(pipeline: Pipeline, records_max: int) -> list[TrialDocument]:
    """Try each connector, and return where records would go, and what would be written.

    Raises:
        CommandError: The server cannot be reached, or refuses the login.
    """
    try:
        found = asyncio.run(tried(pipeline, records_max=records_max, seconds=_TRIAL_SECONDS))
    except HeadraceError as error:
        raise CommandError(f"{error}; {pipeline.file} has the address and the user in [server]") from error
    return [
        TrialDocument(
            key=one.key,
            kind=one.kind,
            plugin=one.plugin,
            error=one.error,
            records=[cast("Any", record._asdict()) for record in one.records],
            warnings=list(one.warnings),
            new_topics=[{"stream": stream, "topic": topic} for stream, topic in one.new_topics],
        )
        for one in found
    ]
