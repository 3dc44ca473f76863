"""The command line of a service process: ``python -m PACKAGE [--config FILE]``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from headrace_settings.display.rendering import to_markdown
from headrace_settings.errors import SettingsError
from headrace_settings.loading.loading import Loaded
from headrace_settings.section import Section

ConfigT = TypeVar("ConfigT", bound=Section)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProcess(Generic[ConfigT]):
    """Parameters of a service's process."""

    package: str
    """Package that ``python -m`` runs."""
    description: str
    prefix: str
    """Prefix of its environment variables."""
    model: type[ConfigT]
    load: Callable[[Path | None, Mapping[str, str]], Loaded[ConfigT]]
    serve: Callable[[Loaded[ConfigT]], Coroutine[Any, Any, None]]
    """Configure the log and return a coroutine, which runs until the process is asked to stop."""
    refusals: tuple[type[Exception], ...]
    """Exceptions for which the process exits with their message alone, without a traceback."""

    def main(self, arguments: Sequence[str]) -> int:
        """Run the service until the process is asked to stop; returns the exit status."""
        parser = argparse.ArgumentParser(
            prog=f"python -m {self.package}",
            description=self.description,
            epilog=(
                f"A setting is taken from a variable ({self.prefix}_CLUSTER_NAME for cluster.name), then from the file."
            ),
        )
        parser.add_argument("--config", type=Path, help="TOML file with settings")
        parser.add_argument("--settings", action="store_true", help="print every setting with its default and meaning")
        options = parser.parse_args(arguments)
        if options.settings:
            sys.stdout.write(to_markdown(self.model, prefix=self.prefix))
            return 0
        try:
            loaded = self.load(options.config, os.environ)
            serving = self.serve(loaded)
            loaded.log_warnings()
            asyncio.run(serving)
        except SettingsError as error:
            sys.stderr.write(f"{len(error.problems)} wrong setting(s)\n{error}\n")
            return 1
        except self.refusals as error:
            sys.stderr.write(f"error: {error}\n")
            return 1
        return 0
