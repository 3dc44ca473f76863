"""A Kafka broker on this machine, and Spark's source for it; both are downloaded from Maven Central on first use."""

from __future__ import annotations

import base64
import socket
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CACHE = Path.home() / ".cache" / "headrace-bench"
"""Cache outside the checkout, so that other checkouts do not download again."""
_CENTRAL = "https://repo1.maven.org/maven2"
_BROKER = "3.9.2"
SOURCE_JARS = (
    # Newest version with all parts available; it runs on Spark 4.3.
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", _BROKER),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
    ("org.scala-lang.modules", "scala-parallel-collections_2.13", "1.2.0"),
)
"""Group, artifact and version of Spark's Kafka source and its dependencies."""
BROKER = f"org.apache.kafka:kafka_2.13:{_BROKER}"
_STARTS_WITHIN_SECONDS = 60.0


class KafkaUnavailable(Exception):
    """The artifacts could not be downloaded, or the broker does not start."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker."""

    address: str
    pid: int
    data: Path


def source_jars() -> list[Path]:
    """Return the jars of Spark's Kafka source.

    Raises:
        KafkaUnavailable: A jar could not be downloaded.
    """
    directory = CACHE / "source"
    directory.mkdir(parents=True, exist_ok=True)
    return [_loaded(directory, *coordinates) for coordinates in SOURCE_JARS]


def _loaded(directory: Path, group: str, artifact: str, version: str) -> Path:
    path = directory / f"{artifact}-{version}.jar"
    if not path.exists():
        address = f"{_CENTRAL}/{group.replace('.', '/')}/{artifact}/{version}/{path.name}"
        partial = path.with_suffix(".part")
        try:
            with urllib.request.urlopen(address, timeout=60.0) as response:
                partial.write_bytes(response.read())
        except OSError as error:
            raise KafkaUnavailable(f"{address}: {error}") from error
        partial.rename(path)
    return path


def _broker_class_path(spark: SparkSession) -> str:
    """Return the class path of the broker and its dependencies, resolved by Spark's own resolver."""
    jvm = spark._jvm
    assert jvm is not None, "the session is not over"
    jvm.java.lang.System.setProperty("ivy.home", str(CACHE / "ivy"))
    jvm.java.lang.System.setProperty("ivy.default.ivy.user.dir", str(CACHE / "ivy"))
    try:
        found = jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(jvm.java.net.URI(f"ivy://{BROKER}"))
    except Exception as error:
        raise KafkaUnavailable(f"{BROKER} cannot be loaded: {error}") from error
    import pyspark

    # The resolver omits artifacts that Spark already contains.
    (scala,) = (Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar")
    return f"{found.mkString(':')}:{scala}"


@contextmanager
def broker(directory: Path, spark: SparkSession) -> Generator[Broker]:
    """Run one broker, which is its own controller, during a ``with`` block.

    Raises:
        KafkaUnavailable: The broker could not be downloaded, or does not start.
    """
    directory.mkdir()
    class_path = _broker_class_path(spark)
    port, controller = free_port(), free_port()
    settings = directory / "server.properties"
    settings.write_text(
        "\n".join(
            f"{name}={value}"
            for name, value in {
                "process.roles": "broker,controller",
                "node.id": 1,
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": directory / "data",
                "offsets.topic.replication.factor": 1,
                "transaction.state.log.replication.factor": 1,
                "transaction.state.log.min.isr": 1,
                "num.partitions": 2,
                "log.segment.bytes": 1 << 30,
            }.items()
        ),
        encoding="utf-8",
    )
    java = ["java", "-Xmx1g", "-cp", class_path]
    with (directory / "broker.log").open("wb") as log:
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(settings)],
            check=True,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_for(port, process, directory / "broker.log")
        yield Broker(f"127.0.0.1:{port}", process.pid, directory / "data")
    finally:
        process.terminate()
        process.wait()


def _cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise KafkaUnavailable(
                    f"the broker does not start: {log.read_text(errors='replace')[-2000:]}"
                ) from None
            time.sleep(0.1)
        else:
            return
