"""Life cycle of a job: from arguments to an exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from pyspark_headrace.errors import OptionError
from pyspark_headrace.jobs.running.arguments import (
    DONE,
    WRONG_ARGUMENTS,
    ArgumentError,
    command_of,
    parsed,
    refused,
    shown,
)
from pyspark_headrace.jobs.running.config import JobConfig
from pyspark_headrace.jobs.running.reasons import reason
from pyspark_headrace.jobs.running.report import Report
from pyspark_headrace.jobs.running.stopping import Stop

if TYPE_CHECKING:
    import click
    from pyspark.sql import SparkSession
    from structlog.typing import FilteringBoundLogger

    from pyspark_headrace.jobs.running.metrics import Metrics
    from pyspark_headrace.jobs.running.progress import Progress

FAILED: Final = 1
FOUND: Final = 3
"""Exit code: the job is done, with findings at or above the level of ``--fail-on``."""

_ERROR_LENGTH_MAX: Final = 4000
_PROGRAM: Final = "headrace-spark"

C = TypeVar("C", bound=JobConfig)


@dataclass(frozen=True)
class Context:
    """Context of a running job, besides its configuration."""

    stop: Stop
    """Stop request."""
    log: FilteringBoundLogger
    """Logger for stderr."""
    metrics: Metrics
    """Metrics for Prometheus."""
    progress: Progress
    """Progress display."""


@dataclass(frozen=True)
class Job(Generic[C]):
    """Description of a job."""

    name: str
    """Name on the command line."""
    summary: str
    """Short phrase for listings."""
    config: type[C]
    """Class of its arguments."""
    run: Callable[[SparkSession, C, Context], Report]
    """Entry point. Receives None as session if `needs_spark` is false."""
    needs_spark: bool = True
    """True if the job needs a session."""

    @property
    def program(self) -> str:
        """Command of the job."""
        return f"{_PROGRAM} {self.name}"

    def command(self) -> click.Command:
        """Create the command that parses its arguments."""
        return command_of(self.config, self.name, self.summary)

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the job as a program: report on stdout, everything else on stderr.

        Args:
            argv: Arguments; default: those of the process.

        Returns:
            The exit code.
        """
        try:
            given = sys.argv[1:] if argv is None else argv
            config = parsed(self.config, given, self.program, self.summary)
        except SystemExit as end:
            return int(end.code or DONE)
        stdout = sys.stdout
        # Keep stdout free for the report, whatever a job or a library prints.
        with redirect_stdout(sys.stderr):
            report = self._reported(config)
        if report is None:
            return WRONG_ARGUMENTS
        print(report.to_json(), file=stdout, flush=True)
        match report.status:
            case "failed":
                return FAILED
            case "findings":
                return FOUND
            case _:
                return DONE

    def _reported(self, config: C) -> Report | None:
        """Run the job and return the report; None if the arguments turned out to be wrong, which was reported."""
        from pyspark_headrace.jobs.running.logs import logging_to_stderr  # noqa: PLC0415 - help does without

        started, begun = datetime.now(UTC), time.monotonic()
        with logging_to_stderr(config.log_level, job=self.name, name=config.name) as log:
            try:
                report = self._run(config, log)
            except (ArgumentError, OptionError) as error:
                refused(str(error), self.program)
                return None
            except Exception as error:
                log.exception("the job failed")
                report = Report(status="failed", error=reason(error)[:_ERROR_LENGTH_MAX])
            if report.status == "done" and report.has_findings(config.fail_on):
                report.status = "findings"
            report.job, report.name, report.dry_run = self.name, config.name, config.dry_run
            report.started_at = started.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            report.seconds = round(time.monotonic() - begun, 3)
            if config.report is not None:
                try:
                    report.write(Path(config.report))
                except OSError as error:
                    log.error("the report is only on standard output", error=str(error))
                    report.status, report.error = "failed", report.error or f"--report {config.report}: {error}"
            return report

    def _run(self, config: C, log: FilteringBoundLogger) -> Report:
        from pyspark_headrace.jobs.running.metrics import Metrics  # noqa: PLC0415 - help does without
        from pyspark_headrace.jobs.running.progress import Progress  # noqa: PLC0415

        stop = Stop()
        with ExitStack() as stack:
            stack.enter_context(stop.on_signals())
            metrics = stack.enter_context(Metrics(self.name, config.name))
            if config.metrics_listen is not None:
                try:
                    where = metrics.listen(*config.metrics_listen)
                except OSError as error:
                    raise ArgumentError(f"--metrics-listen: {error}") from error
                log.info("metrics", url=where)
            log.info("begins", **shown(config))
            progress = stack.enter_context(Progress(log, self.name))
            spark = stack.enter_context(self._session(config)) if self.needs_spark else None
            stop.take_signals()
            return self.run(cast("SparkSession", spark), config, Context(stop, log, metrics, progress))

    @contextmanager
    def _session(self, config: C) -> Iterator[SparkSession]:
        """Use the active session, or create one that ends with the job."""
        from pyspark.sql import SparkSession  # noqa: PLC0415

        from pyspark_headrace.jobs.environment import handed_on  # noqa: PLC0415
        from pyspark_headrace.jobs.running.session import session  # noqa: PLC0415

        is_ours = SparkSession.getActiveSession() is None
        spark = session(f"{self.program} {config.name}".strip(), config)
        try:
            with handed_on(spark):
                yield spark
        finally:
            if is_ours:
                spark.stop()
