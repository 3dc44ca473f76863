"""Checks of a server, as its clients see it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from headrace.cli.diagnosis.machine import failure, ok, warning
from headrace.cli.documents import CheckDocument
from headrace.cli.errors import CommandError
from headrace.cli.servers.target import Target
from headrace_core import ServerError

_SKEW_SECONDS_MAX: Final = 1.0


def checks(target: Target) -> Iterator[CheckDocument]:
    """Check that the server responds, and if there are credentials, that they are accepted."""
    try:
        with target.connected_without_login() as client:
            began = time.perf_counter()
            client.ping()
            yield ok("server", f"{target.address} responded in {(time.perf_counter() - began) * 1e3:.3f} ms")
    except CommandError as error:
        yield failure("server", *_parts(str(error)))
        return
    if target.token is None and (target.username is None or target.password is None):
        yield warning("login", "not tried", "set HEADRACE_USERNAME and HEADRACE_PASSWORD, or use a context")
        return
    try:
        with target.connected() as client:
            yield ok("login", "token accepted" if target.token is not None else f"as {target.username}")
            try:
                stats = client.stats()
            except ServerError:
                return
            skew_seconds = (stats.start_time_micros + stats.run_time_micros) / 1e6 - time.time()
    except CommandError as error:
        yield failure("login", *_parts(str(error)))
        return
    text = f"{abs(skew_seconds):.1f} s {'ahead of' if skew_seconds > 0 else 'behind'} this machine"
    if abs(skew_seconds) > _SKEW_SECONDS_MAX:
        yield warning("clock of the server", text, "synchronise both: lag in seconds and times of --from go by them")
    else:
        yield ok("clock of the server", text)


def _parts(message: str) -> tuple[str, str]:
    """Return what a message says was found, and what to do."""
    found, _, advice = message.partition(": ")
    return found, advice or "see docs/command-line.md"
