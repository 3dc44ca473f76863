"""The process of the connectors, from its arguments to its exit status."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headrace.sdk.errors import HeadraceError
from headrace_chassis import log_output
from headrace_chassis.errors import StartRefused
from headrace_chassis.log_output import LoggingSettings
from headrace_chassis.process import serve
from headrace_connectors.app import RunningConnectors, running
from headrace_connectors.contract import ConnectorError
from headrace_connectors.garbage_collection import loaded_objects_frozen
from headrace_connectors.pipeline_file.pipeline import read_pipeline
from headrace_connectors.plugins.discovery import Plugins
from headrace_settings import SettingsError

_REFUSED: Final = 1
_INVALID: Final = 2


def main(arguments: Sequence[str]) -> int:
    """Run the connectors of a pipeline file until the process is asked to stop; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m headrace_connectors", description="Run the connectors of a pipeline file in the foreground."
    )
    parser.add_argument("pipeline", type=Path, help="pipeline file, in TOML")
    parser.add_argument("--check", action="store_true", help="check the file, start nothing, and exit")
    given = parser.parse_args(arguments)
    try:
        pipeline = read_pipeline(given.pipeline, Plugins(), os.environ)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return _INVALID
    if given.check:
        sys.stdout.write(f"{given.pipeline} is valid: {', '.join((*pipeline.sources, *pipeline.sinks))}\n")
        return 0
    log_output.configure(LoggingSettings())
    _permit_files()
    try:
        with loaded_objects_frozen():
            asyncio.run(serve(running(pipeline), on_started=RunningConnectors.log_addresses))
    except (StartRefused, ConnectorError, HeadraceError, OSError) as error:
        sys.stderr.write(f"cannot start: {error}\n")
        return _REFUSED
    return 0


def _permit_files() -> None:
    """Permit as many open files as an administrator has: callers of sources are connections."""
    permitted = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    # Some systems have no maximum, and refuse to set none.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (permitted, permitted))
