"""Diagnostics archive for support: state of the machine and the process."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import psutil

from headrace_gateway.observability.host_statistics import Host
from headrace_proto.errors import Status

# Codes of the binary protocol.
_ALL: Final = 100
_TEST: Final = 4
# No release of the standard library supports method 95 (xz); releases from 3.14 support method 93 (zstd).
_COMPRESSIONS: Final = {
    1: zipfile.ZIP_STORED,
    2: zipfile.ZIP_DEFLATED,
    3: zipfile.ZIP_BZIP2,
    4: getattr(zipfile, "ZIP_ZSTANDARD", None),
    5: zipfile.ZIP_LZMA,
    6: None,
}

_FILES_LISTED_MAX: Final = 10_000
_LOG_BYTES_MAX: Final = 8 * 1024 * 1024


class DiagnosticsRefusedError(Exception):
    """The requested archive cannot be made."""

    def __init__(self, code: Status) -> None:
        super().__init__(code)
        self.code = code


class Diagnostics:
    """Collects information about a faulty server."""

    def __init__(self, *, host: Host, data_directory: Path, log_directory: Path | None, configuration: str) -> None:
        """Configure the sources; nothing is collected yet.

        Args:
            host: Machine of the process.
            data_directory: Directory to list.
            log_directory: Directory of the log files, if any.
            configuration: Effective settings without secrets.
        """
        self._host = host
        self._data_directory = data_directory
        self._log_directory = log_directory
        self._configuration = configuration
        self._kinds: dict[int, tuple[str, Callable[[], str]]] = {
            1: ("filesystem_overview", self._filesystem_overview),
            2: ("process_list", self._process_list),
            3: ("resource_usage", self._resource_usage),
            _TEST: ("test", lambda: "test\n"),
            5: ("server_logs", self._server_logs),
            6: ("server_config", lambda: self._configuration),
        }

    def archive(self, compression: int, kinds: Sequence[int]) -> bytes:
        """Return a ZIP archive with one text file for each kind. Slow: do not call on the event loop.

        Args:
            compression: 1 stored, 2 deflated, 3 bzip2, 4 zstd, 5 lzma, 6 xz.
            kinds: 1 filesystem overview, 2 process list, 3 resource usage, 4 test, 5 server logs, 6 server
                configuration; or 100 alone, for all of them except the test.

        Raises:
            DiagnosticsRefusedError: 3, an unknown code, or "all" combined with other kinds; 5, this release does not
                support
                the compression.
        """
        if compression not in _COMPRESSIONS or any(kind not in self._kinds and kind != _ALL for kind in kinds):
            raise DiagnosticsRefusedError(Status.INVALID_COMMAND)
        if _ALL in kinds and len(kinds) > 1:
            raise DiagnosticsRefusedError(Status.INVALID_COMMAND)
        method = _COMPRESSIONS[compression]
        if method is None:
            raise DiagnosticsRefusedError(Status.FEATURE_UNAVAILABLE)
        chosen = [kind for kind in self._kinds if kind != _TEST] if _ALL in kinds else list(dict.fromkeys(kinds))

        contents = io.BytesIO()
        with zipfile.ZipFile(contents, "w", compression=method) as archive:
            for kind in chosen:
                name, collect = self._kinds[kind]
                archive.writestr(f"{name}.txt", collect())
        return contents.getvalue()

    def _filesystem_overview(self) -> str:
        lines = ["mount points", "    device, type, used of total bytes, path"]
        for partition in psutil.disk_partitions():
            try:
                usage = psutil.disk_usage(partition.mountpoint)
            except OSError:
                continue
            lines.append(
                f"    {partition.device}, {partition.fstype}, {usage.used} of {usage.total}, {partition.mountpoint}"
            )
        lines += ["", "data directory", "    bytes, path"]
        for index, (path, size_bytes) in enumerate(_files_below(self._data_directory)):
            if index == _FILES_LISTED_MAX:
                lines.append(f"    ... only the first {_FILES_LISTED_MAX} files are listed")
                break
            lines.append(f"    {size_bytes}, {path.relative_to(self._data_directory)}")
        return _text(lines)

    def _process_list(self) -> str:
        # No command lines: they may contain passwords of other programs.
        lines = ["id, user, state, resident bytes, threads, name"]
        attributes = ["pid", "username", "status", "memory_info", "num_threads", "name"]
        for process in psutil.process_iter(attributes):
            facts = process.info
            resident_bytes = facts["memory_info"].rss if facts["memory_info"] else "?"
            lines.append(
                f"{facts['pid']}, {facts['username']}, {facts['status']}, {resident_bytes}, "
                f"{facts['num_threads']}, {facts['name']}"
            )
        return _text(lines)

    def _resource_usage(self) -> str:
        lines = [f"{field.name}: {value}" for field, value in self._host.statistics().ListFields()]
        swap = psutil.swap_memory()
        lines += [
            f"cpus: {psutil.cpu_count()}",
            f"load averages over 1, 5 and 15 minutes: {', '.join(f'{load:.2f}' for load in psutil.getloadavg())}",
            f"swap used: {swap.used} of {swap.total} bytes",
        ]
        lines += [
            f"network {name}: {counters.bytes_sent} bytes sent, {counters.bytes_recv} received, "
            f"{counters.dropin + counters.dropout} packets dropped"
            for name, counters in sorted(psutil.net_io_counters(pernic=True).items())
        ]
        return _text(lines)

    def _server_logs(self) -> str:
        if self._log_directory is None or not self._log_directory.is_dir():
            return "There are no log files: the server writes its log to standard output.\n"
        # Read the newest files first because they matter most; the oldest are left out.
        newest_first = sorted(self._log_directory.iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        parts: list[str] = []
        remaining_bytes = _LOG_BYTES_MAX
        for path in newest_first:
            if not path.is_file() or remaining_bytes == 0:
                continue
            tail = _tail(path, remaining_bytes)
            remaining_bytes -= len(tail)
            parts.append(f"==> {path.name}\n{tail.decode(errors='replace')}\n")
        return "".join(reversed(parts))


def _files_below(directory: Path) -> Iterator[tuple[Path, int]]:
    for parent, directories, names in os.walk(directory):
        directories.sort()
        for name in sorted(names):
            path = Path(parent) / name
            try:
                yield path, path.stat().st_size
            except OSError:
                # The file was removed during the listing.
                continue


def _tail(path: Path, length_bytes: int) -> bytes:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - length_bytes))
        return file.read(length_bytes)


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
