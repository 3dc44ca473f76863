"""What tests of this folder share: one session of Spark for the process, a server for each file."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# In this import mode a test folder is not on the path by itself.
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "jobs"))

from place import PASSWORD_VARIABLE, Place
from tests.server_process import PASSWORD, ServerProcess
from tests.spark_home import JAVA_OPTIONS, PYTHON, SPARK_HOME
from tests.spark_python import SOCKET_VARIABLE

ROOT: Final = Path(__file__).resolve().parents[2]
os.environ[PASSWORD_VARIABLE] = PASSWORD
# Here and in programs that tests start.
os.environ.setdefault("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
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
    "pyspark_headrace.batch_reader",
    "pyspark_headrace.sink",
    "pyspark_headrace.source",
    "pyspark_headrace.stream_reader",
)
"""What Spark's processes of Python need, which are forked from one that has imported it."""


@pytest.fixture(scope="session", autouse=True)
def spark_python() -> Iterator[None]:
    """The Python that Spark starts, here and in programs that tests start: see `tests/spark_python.py`."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
    ):
        listener.bind(f"{folder}/forks")
        listener.listen(64)
        forks = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server", str(listener.fileno()), *_IMPORTED],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            process_group=0,
        )
        os.environ[SOCKET_VARIABLE] = f"{folder}/forks"
        os.environ["PYSPARK_PYTHON"] = str(PYTHON)
        yield
        forks.terminate()
        forks.wait()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores in which a task is tried three times."""
    from pyspark.sql import SparkSession

    work = tmp_path_factory.mktemp("spark")
    with warnings.catch_warnings():
        # What Spark's own Python does is not ours to mend.
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
            # Workers are slow to start where much else runs.
            .config("spark.python.authenticate.socketTimeout", "60s")
            .getOrCreate()
        )
        yield session
        session.stop()


@pytest.fixture(scope="module")
def server_settings() -> Mapping[str, str]:
    """Those of the server of a file: by default none. A file whose server needs some has a fixture of this name."""
    return {}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, server_settings: Mapping[str, str]) -> Iterator[ServerProcess]:
    """One server for the tests of a file, which keep to names of their own."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", server_settings) as server:
        yield server


@pytest.fixture
def place(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[Place]:
    """A stream that is a test's own, and how it is read."""
    with Place(server, str(request.node.name)[:200]) as place:
        yield place
