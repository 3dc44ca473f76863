"""The driver of the queries, and the supervisor that restarts it whenever it ends."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.faults.spark import processes, query
from tests.faults.spark.processes import Processes
from tests.server_process import PASSWORD, USERNAME
from tests.spark_home import SPARK_HOME, java_options

_FAILED: Final = "a query failed: "
_FAILURE_LENGTH_MAX: Final = 160
_LOOK_SECONDS: Final = 0.05
_PAUSE_SECONDS_MAX: Final = 1.0
_END_SECONDS: Final = 20.0


class Driver(threading.Thread):
    """Supervisor of one driver. Executors of the previous driver may still run when the next one starts."""

    def __init__(self, directory: Path, servers: Sequence[str], stream: str, numbers: random.Random) -> None:
        """Describe the queries.

        Args:
            directory: Directory for files, checkpoints and logs.
            servers: gRPC addresses of gateways.
            stream: Stream with the topics `in` and `out`.
            numbers: Random source of the shuffling of rows in each run, and of the pauses between two runs.
        """
        super().__init__(name="supervisor", daemon=True)
        self.directory = directory
        self.log = directory / "driver.log"
        self.starts = 0
        self.started_at = 0.0
        """Start time of the current driver, by the clock of the file system."""
        self.ends: Counter[str] = Counter()
        """Number of ends of the driver by cause."""
        self.failures: Counter[str] = Counter()
        """Number of query failures that the driver itself has recovered from, by reason."""
        self.shuffles: Counter[str] = Counter()
        self._numbers = numbers
        self._servers = list(servers)
        self._stream = stream
        self._is_over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._sessions: list[int] = []

    def processes(self) -> Processes:
        """Return the processes of the current driver."""
        process = self._process
        return processes.of_session(process.pid) if process is not None else Processes((), (), (), (), ())

    def kill(self) -> bool:
        """Kill the driver, that is its script and its virtual machine; return whether there was one."""
        process = self._process
        if process is None or process.poll() is not None:
            return False
        processes.kill((*self.processes().driver, process.pid))
        return True

    def run(self) -> None:
        """Start the driver again and again."""
        secret = self.directory / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        while not self._is_over.is_set():
            process, begin = self._start(secret)
            while process.poll() is None and not self._is_over.is_set():
                time.sleep(_LOOK_SECONDS)
            self._read_log(begin)
            if not self._is_over.is_set():
                self.ends[f"status {process.returncode}"] += 1
            self._is_over.wait(self._numbers.uniform(0, _PAUSE_SECONDS_MAX))

    def stop(self) -> None:
        """End the driver and all leftovers of earlier drivers."""
        self._is_over.set()
        self.join(_END_SECONDS)
        while left := [number for session in self._sessions for number in processes.of_session(session).all_of_them]:
            processes.kill(left)
            time.sleep(_LOOK_SECONDS)
        if self._process is not None:
            self._process.wait(_END_SECONDS)

    def _start(self, secret: Path) -> tuple[subprocess.Popen[bytes], int]:
        shuffle = self._numbers.choice(query.SHUFFLES)
        self.shuffles[shuffle] += 1
        order = self._numbers.sample(self._servers, len(self._servers))
        command = [sys.executable, query.__file__, "--servers", ",".join(order), "--username", USERNAME]
        command += ["--password-file", str(secret), "--stream", self._stream]
        command += ["--directory", str(self.directory), "--shuffle", shuffle]
        begin = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ
                | {
                    "SPARK_HOME": str(SPARK_HOME),
                    "JDK_JAVA_OPTIONS": java_options(self.directory / "java"),
                    "PYSPARK_PYTHON": sys.executable,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
                start_new_session=True,
            )
        self._sessions.append(self._process.pid)
        self.started_at = time.time()
        self.starts += 1
        return self._process, begin

    def _read_log(self, begin: int) -> None:
        with self.log.open("rb") as log:
            log.seek(begin)
            lines = log.read().decode(errors="replace").splitlines()
        self.failures.update(
            line.removeprefix(_FAILED)[:_FAILURE_LENGTH_MAX] for line in lines if line.startswith(_FAILED)
        )
