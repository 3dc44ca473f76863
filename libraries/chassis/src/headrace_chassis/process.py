"""Process of a service: ``python -m PACKAGE [--config FILE]``."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from headrace_chassis.errors import StartRefused
from headrace_chassis.signals import Signals
from headrace_settings import Loaded, Section, SettingsError, to_markdown

_log = logging.getLogger(__name__)


class RunningService(Protocol):
    """A service that has started."""

    async def until(self, stop: asyncio.Event) -> None:
        """Wait until ``stop`` is set; raise the failure of the service."""

    async def reload_certificates(self) -> None:
        """Check for new certificates now; the result is logged."""


ConfigT = TypeVar("ConfigT", bound=Section)
ServiceT = TypeVar("ServiceT", bound=RunningService)


async def serve(
    starting: AbstractAsyncContextManager[ServiceT],
    *,
    on_started: Callable[[ServiceT], object],
    on_stopping: Callable[[], object] = lambda: _log.info("stopping: answering what is in flight"),
) -> None:
    """Run a service until the process is asked to stop (SIGINT, SIGTERM), or the service fails.

    A stop during the start cancels it. SIGUSR1 makes the service check its certificates, after the start at the latest.

    Args:
        starting: Starts the service, and stops it at the end of the block.
        on_started: Called when the service has started.
        on_stopping: Called when the process was asked to stop, before the service stops.

    Raises:
        Exception: The service cannot start, or has failed.
    """
    waiting = asyncio.current_task()
    if waiting is None:
        raise AssertionError("a coroutine runs in a task")
    signals = Signals(cancel_start=waiting.cancel)
    try:
        async with starting as service:
            signals.started(service.reload_certificates)
            on_started(service)
            await service.until(signals.stop)
            on_stopping()
    except asyncio.CancelledError:
        if not signals.stop.is_set():
            raise
        # Cancelled by the signal.
        _log.info("shutdown requested during startup")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProcess(Generic[ConfigT, ServiceT]):
    """Description of a service's process."""

    package: str
    """Package that ``python -m`` runs."""
    description: str
    prefix: str
    """Prefix of its environment variables."""
    model: type[ConfigT]
    load: Callable[[Path | None, Mapping[str, str]], Loaded[ConfigT]]
    configure_log: Callable[[ConfigT], object]
    running: Callable[[Loaded[ConfigT]], AbstractAsyncContextManager[ServiceT]]
    """Run the service for the duration of an ``async with`` block."""
    on_started: Callable[[ServiceT], object]
    """Called when the service has started: writes its addresses to the log."""
    refusals: tuple[type[Exception], ...] = ()
    """Exceptions, beside `StartRefused` and `OSError`, for which the process exits with their message alone, without a
    traceback.
    """

    def main(self, arguments: Sequence[str]) -> int:
        """Run the service until the process is asked to stop; return the exit status."""
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
        refusals: tuple[type[Exception], ...] = (StartRefused, OSError, *self.refusals)
        try:
            loaded = self.load(options.config, os.environ)
            self.configure_log(loaded.config)
            loaded.log_warnings()
            asyncio.run(serve(self.running(loaded), on_started=self.on_started))
        except SettingsError as error:
            sys.stderr.write(f"{len(error.problems)} wrong setting(s)\n{error}\n")
            return 1
        except refusals as error:
            sys.stderr.write(f"error: {error}\n")
            return 1
        _log.info("stopped")
        return 0
