"""Statistics of the process and the machine."""

from __future__ import annotations

import platform
import shutil
import socket
import threading
import time
from pathlib import Path
from typing import Final

import psutil

from headrace_proto.control.v1 import HostStatistics

_MICROS_PER_SECOND: Final = 1_000_000
# The kernel counts CPU time in ticks of 10 ms: over a shorter time than this, a share is mostly rounding.
_CPU_SECONDS_MIN: Final = 0.5


class Host:
    """The machine that this process runs on."""

    def __init__(self, data_directory: Path) -> None:
        """Start measuring.

        Args:
            data_directory: Existing directory; the free space of its device is reported.
        """
        self._data_directory = data_directory
        self._process = psutil.Process()
        self._started_at_seconds = self._process.create_time()
        self._names = _system_names()
        # CPU usage is measured since the previous measurement, so calls are serialized and the first one is made here.
        self._one_at_a_time = threading.Lock()
        self._own_percent, self._total_percent = self._process.cpu_percent(), 0.0
        self._machine_seconds = _machine_seconds()
        self._cpu_measured_at = time.monotonic()

    def statistics(self) -> HostStatistics:
        """Measure. Reads many small files: do not call on the event loop."""
        with self._one_at_a_time:
            memory = psutil.virtual_memory()
            disk = shutil.disk_usage(self._data_directory)
            read_bytes, written_bytes = self._io_bytes()
            os_name, os_version = self._names
            own_percent, total_percent = self._cpu_usage()
            return HostStatistics(
                process_id=self._process.pid,
                cpu_usage_percent=own_percent,
                total_cpu_usage_percent=total_percent,
                memory_usage_bytes=self._process.memory_info().rss,
                total_memory_bytes=memory.total,
                available_memory_bytes=memory.available,
                run_time_micros=max(0, int((time.time() - self._started_at_seconds) * _MICROS_PER_SECOND)),
                start_time_micros=int(self._started_at_seconds * _MICROS_PER_SECOND),
                read_bytes=read_bytes,
                written_bytes=written_bytes,
                hostname=socket.gethostname(),
                os_name=os_name,
                os_version=os_version,
                kernel_version=platform.release(),
                threads_count=self._process.num_threads(),
                free_disk_space_bytes=disk.free,
                total_disk_space_bytes=disk.total,
            )

    def _cpu_usage(self) -> tuple[float, float]:
        """Return the usage by the process, in percent of one core, and of the machine, in percent of all cores.

        Measured anew only if enough time has passed since the last measurement, for any caller.
        """
        now = time.monotonic()
        if now - self._cpu_measured_at >= _CPU_SECONDS_MIN:
            self._own_percent = self._process.cpu_percent()
            # `psutil.cpu_percent` measures since the previous call of the same thread, and any thread may call this.
            before, self._machine_seconds = self._machine_seconds, _machine_seconds()
            busy, total = (after - earlier for after, earlier in zip(self._machine_seconds, before, strict=True))
            self._total_percent = min(100.0, max(0.0, 100 * busy / total)) if total > 0 else 0.0
            self._cpu_measured_at = now
        return self._own_percent, self._total_percent

    def _io_bytes(self) -> tuple[int, int]:
        try:
            counters = self._process.io_counters()
        except psutil.AccessDenied:
            # Some containers hide these counters from the process itself.
            return 0, 0
        return counters.read_bytes, counters.write_bytes


def _machine_seconds() -> tuple[float, float]:
    """Return the busy time and the whole time of all cores since the machine has started."""
    times = psutil.cpu_times()
    # Time of guests is counted as time of users as well.
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return total - times.idle - getattr(times, "iowait", 0.0), total


def _system_names() -> tuple[str, str]:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return platform.system(), platform.version()
    return release["NAME"], release.get("VERSION_ID", "")
