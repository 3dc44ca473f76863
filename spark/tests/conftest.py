"""What tests of this folder share: one session of Spark for the process, a server for each file."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# In this import mode a test folder is not on the path by itself.
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "jobs"))

from place import PASSWORD_VARIABLE, Place
from tests.server_process import PASSWORD, ServerProcess
from tests.spark_home import JAVA_OPTIONS, SPARK_HOME

os.environ[PASSWORD_VARIABLE] = PASSWORD
# Here and in programs that tests start.
os.environ.setdefault("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
os.environ["SPARK_HOME"] = str(SPARK_HOME)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores in which a task is tried three times."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
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
