"""Programs of other logs, from package registries: Kafka by Maven, the NATS server by Go; kept for later runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.performance.rivals.kafka_broker import KafkaUnavailable

CACHE = Path.home() / ".cache" / "headrace-bench"
"""Cache outside the checkout, so that other checkouts do not build again."""
_POM = Path(__file__).with_name("pom.xml")
_NATS_MODULE = "github.com/nats-io/nats-server/v2"
_NATS_VERSION = "v2.15.2"


class NatsUnavailable(Exception):
    """The server could not be built, or does not start."""


def kafka_version() -> str:
    """Return the version of the broker."""
    found = re.search(r"<artifactId>kafka_2\.13</artifactId>\s*<version>(.*)</version>", _POM.read_text("utf-8"))
    assert found is not None, "the project file names the broker"
    return found[1]


def kafka_class_path() -> str:
    """Return the class path of the broker; its artifacts are loaded on first use.

    Raises:
        KafkaUnavailable: There is no Java or Maven, or an artifact could not be loaded.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise KafkaUnavailable(f"there is no {program}")
    CACHE.mkdir(parents=True, exist_ok=True)
    written = CACHE / f"kafka-{kafka_version()}.class-path"
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", _POM, "dependency:build-classpath", f"-Dmdep.outputFile={written}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise KafkaUnavailable(f"Maven cannot load the broker: {(done.stdout + done.stderr).strip()[-500:]}")
    return written.read_text("utf-8").strip()


def nats_version() -> str:
    """Return the version of the server."""
    return _NATS_VERSION.removeprefix("v")


def nats_server() -> Path:
    """Return the server's program, which is built on first use.

    Raises:
        NatsUnavailable: There is no Go, or the server could not be built.
    """
    directory = CACHE / f"nats-server-{nats_version()}"
    program = directory / "nats-server"
    if program.exists():
        return program
    if shutil.which("go") is None:
        raise NatsUnavailable("there is no go")
    directory.mkdir(parents=True, exist_ok=True)
    # Outside the checkout there is no go.mod that could have a say in it.
    done = subprocess.run(
        ["go", "install", f"{_NATS_MODULE}@{_NATS_VERSION}"],
        cwd=directory,
        env=os.environ | {"GOBIN": str(directory)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NatsUnavailable(f"Go cannot build the server: {done.stderr.strip()[-500:]}")
    return program
