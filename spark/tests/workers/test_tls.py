"""SPK-1, SPK-2: TLS from Spark to gateways and nodes, with client and server certificates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
import trustme
from outputs import payloads
from place import Place
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from queries import WAIT_SECONDS, stream
from tests.compatibility.protocol.raw import eventually
from tests.encryption.certificates import ServerFiles


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def files(directory: Path, authority: trustme.CA) -> ServerFiles:
    files = ServerFiles(directory, authority)
    files.write()
    return files


@pytest.fixture(scope="module")
def server_settings(files: ServerFiles) -> Mapping[str, str]:
    """TLS on the listeners that Spark uses; that of gateways requires a client certificate."""
    return files.settings("GRPC_TLS") | {
        "GRPC_TLS_ENABLED": "true",
        "GRPC_TLS_CLIENT_CA_FILE": str(files.authority_file),
        "GRPC_TLS_CLIENT_CERTIFICATES": "required",
        "PIPELINES_TLS_CERTIFICATE": str(files.certificate),
        "PIPELINES_TLS_KEY": str(files.key),
    }


@pytest.fixture(scope="module")
def encrypted(directory: Path, files: ServerFiles, authority: trustme.CA) -> dict[str, str]:
    """Options with a client certificate and the CA of the server."""
    leaf = authority.issue_cert("pipelines@example.com", common_name="pipelines")
    leaf.private_key_pem.write_to_path(directory / "client.key")
    leaf.cert_chain_pems[0].write_to_path(directory / "client.pem")
    return {
        "tls.enabled": "true",
        "tls.ca": str(files.authority_file),
        "tls.certificate": str(directory / "client.pem"),
        "tls.key": str(directory / "client.key"),
    }


def test_both_ways(spark: SparkSession, place: Place, encrypted: dict[str, str], tmp_path: Path) -> None:
    """Check plans, tasks, stages and commits, all encrypted."""
    place.topic("a", 300, 100)
    place.topic("out", 0, 0)
    where = place.options() | encrypted
    assert spark.read.format("headrace").options(**where, subscribe="a").load().count() == 400
    query = (
        stream(spark, place, subscribe="a", startingOffsets="earliest", **encrypted)
        .writeStream.format("headrace")
        .options(**where, topic="out")
        .option("checkpointLocation", str(tmp_path / "cp"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(WAIT_SECONDS))
    expected = Counter(f"{part}:{number}".encode() for part, count in ((0, 300), (1, 100)) for number in range(count))
    eventually("what is committed can be read", lambda: payloads(place).total() >= 400)
    assert payloads(place) == expected


def test_servers_that_are_not_trusted(
    spark: SparkSession, place: Place, encrypted: dict[str, str], tmp_path: Path
) -> None:
    place.topic("a", 3)
    untrusted = tmp_path / "untrusted.pem"
    trustme.CA().cert_pem.write_to_path(untrusted)

    def load(**options: str) -> DataFrame:
        given = place.options(subscribe="a") | encrypted | {"retry.max": "1", "retry.intervalMs": "1"} | options
        return spark.read.format("headrace").options(**given).load()

    wrong = [
        ({"tls.ca": str(untrusted)}, "UnreachableError"),
        ({"tls.serverName": "elsewhere.example"}, "UnreachableError"),
        ({"tls.nodes": "false"}, "UnreachableError"),
        ({"tls.ca": str(tmp_path / "none.pem")}, "option tls.ca: .* cannot be read"),
    ]
    for options, said in wrong:
        with pytest.raises(PySparkException, match=f"(?s){said}"):
            load(**options).count()
    assert load(**{"tls.serverName": "localhost"}).count() == 3
