"""Fixtures common to the tests of this directory: one Spark session per process, one server per file."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

# First of those that import gRPC: the package decides how gRPC treats forks, and PySpark forks to start its JVM.
import pyspark_headrace  # noqa: F401

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# With this import mode of pytest, a test directory is not on the path.
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "jobs"))

from place import PASSWORD_VARIABLE, Place
from tests.server_process import PASSWORD, ServerProcess
from tests.spark_home import PYTHON, SPARK_HOME, java_options
from tests.spark_python import SOCKET_VARIABLE

ROOT: Final = Path(__file__).resolve().parents[2]
os.environ[PASSWORD_VARIABLE] = PASSWORD
# Applies to this process and to programs that tests start.
os.environ["SPARK_HOME"] = str(SPARK_HOME)


_IMPORTED: Final = (
    "grpc",
    "headrace_core",
    "pyarrow.compute",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.worker",
    "pyspark_headrace.read.batch_reader",
    "pyspark_headrace.sink",
    "pyspark_headrace.source",
    "pyspark_headrace.read.stream_reader",
)
"""Modules that Spark's Python processes need; they are forked from a process that has imported these."""


ENGINE: Final = os.environ.get("SPARK_TESTS_ENGINE", "spark")
"""Engine that the contract of both is tested on: `spark`, or `sail`."""


@pytest.fixture(scope="session", autouse=True)
def spark_python() -> Iterator[None]:
    """Python that Spark starts for tests and for programs of tests: see `tests/spark_python.py`."""
    if ENGINE == "sail":
        # It runs Python in the process of the server.
        yield
        return
    with (
        # A JVM that is still ending may write while it is removed.
        tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as directory,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
    ):
        listener.bind(f"{directory}/forks")
        listener.listen(64)
        forks = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server", str(listener.fileno()), *_IMPORTED],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            process_group=0,
        )
        os.environ[SOCKET_VARIABLE] = f"{directory}/forks"
        os.environ["PYSPARK_PYTHON"] = str(PYTHON)
        os.environ["JDK_JAVA_OPTIONS"] = java_options(Path(directory))
        yield
        forks.terminate()
        forks.wait()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Session on two cores with three attempts per task; with Sail, a session of its server in this process."""
    if ENGINE == "sail":
        with sail_session() as session:
            yield session
        return
    from pyspark.sql import SparkSession

    work = tmp_path_factory.mktemp("spark")
    with warnings.catch_warnings():
        # Ignore warnings of Spark's own Python code.
        warnings.simplefilter("ignore")
        session = (
            SparkSession.builder.master("local[2,3]")
            .appName("headrace tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", str(work / "warehouse"))
            .config("spark.local.dir", str(work / "local"))
            .config("spark.driver.memory", "1g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.log.level", "ERROR")
            # Workers start slowly on a busy machine.
            .config("spark.python.authenticate.socketTimeout", "60s")
            .getOrCreate()
        )
        yield session
        session.stop()


@contextmanager
def sail_session() -> Iterator[SparkSession]:
    """Session on Sail, which finds the data source by itself."""
    from pyspark.sql import SparkSession

    program = Path(__file__).with_name("sail_server.py")
    with subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        yield session
        session.stop()
        server.communicate()


@pytest.fixture(scope="module")
def server_settings() -> Mapping[str, str]:
    """Settings of the server of a file: by default none. A file overrides the fixture to change them."""
    return {}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, server_settings: Mapping[str, str]) -> Iterator[ServerProcess]:
    """One server per test file; each test uses its own names."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", server_settings) as server:
        yield server


@pytest.fixture
def place(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[Place]:
    """A stream of a test, with options to read it."""
    with Place(server, str(request.node.name)[:200]) as place:
        yield place
