"""What is measured, a file for each case."""

from collections.abc import Callable, Mapping

from tests.performance.cases import (
    browsers,
    commits,
    encryption,
    frames,
    large,
    memory,
    metadata,
    peaks,
    small,
    startup,
    waiting,
    websocket,
)
from tests.performance.section import Section
from tests.performance.workbench import Workbench

RUN: Mapping[str, Callable[[Workbench], Section]] = {
    "large": large.run,
    "small": small.run,
    "frames": frames.run,
    "fsync": commits.run,
    "websocket": websocket.run,
    "peaks": peaks.run,
    "tls": encryption.run,
    "memory": memory.run,
    "metadata": metadata.run,
    "startup": startup.run,
    "waiting": waiting.run,
    "browsers": browsers.run,
}
