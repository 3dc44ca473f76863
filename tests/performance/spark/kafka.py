"""A Kafka broker on this machine, and Spark's source for it; both are downloaded from Maven Central on first use."""

from __future__ import annotations

import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.performance.rivals import kafka_broker
from tests.performance.rivals.kafka_broker import Broker, KafkaUnavailable
from tests.performance.rivals.programs import CACHE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    with kafka_broker.broker(directory, _broker_class_path(spark)) as running:
        yield running
