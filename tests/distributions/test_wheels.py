"""The wheels of all distributions, installed in an empty environment."""

import re
import signal
import subprocess
import zipfile
from pathlib import Path
from typing import Final

import pytest

from release import checkout, finished
from tests.distributions.environments import build_wheels, install, locked, variables
from tests.up_process import up

ROOT: Final = Path(__file__).resolve().parents[2]
UV: Final = ROOT / ".cache/uv/bin/uv"
STOP_SECONDS: Final = 60


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The wheels of this checkout."""
    return sorted(build_wheels(tmp_path_factory.mktemp("wheels")).glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheels and their dependencies, in the locked versions; return the directory of programs."""
    directory = tmp_path_factory.mktemp("installed")
    return install(wheels, directory / "venv", locked(directory / "locked.txt"))


def test_headrace_up_serves_from_the_wheels(installed: Path, tmp_path: Path) -> None:
    with up(tmp_path / "data", program=installed / "headrace", environment=variables()) as (process, printed):
        password = re.search(r"password:? +(\S+)", printed)
        address = re.search(r"127\.0\.0\.1:(\d+)", printed)
        assert password is not None, printed
        assert address is not None, printed

        def headrace(*arguments: str, text: str | None = None) -> str:
            access = variables(HEADRACE_USERNAME="iggy", HEADRACE_PASSWORD=password[1], HEADRACE_SERVER=address[0])
            command = [installed / "headrace", *arguments]
            result = subprocess.run(
                command, cwd=tmp_path, env=access, input=text, capture_output=True, text=True, check=False
            )
            assert result.returncode == 0, result.stdout + result.stderr
            return result.stdout

        headrace("stream", "create", "shop")
        headrace("topic", "create", "shop", "orders")
        headrace("send", "shop", "orders", text="first\nsecond\n")
        polled = headrace("poll", "shop", "orders")
        assert "first" in polled
        assert "second" in polled
        # A family of commands that is found by its entry point.
        assert "postgres_cdc" in headrace("connect", "plugins")
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_SECONDS) == 0


def test_open_telemetry_is_installed_only_when_asked_for(installed: Path, tmp_path: Path) -> None:
    result = subprocess.run([installed / "python", "-c", "import opentelemetry.sdk"], check=False, capture_output=True)
    assert b"ModuleNotFoundError" in result.stderr
    refused = subprocess.run(
        [installed / "headrace", "up"],
        cwd=tmp_path, env=variables(HEADRACE_TRACING_ENABLED="true"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode != 0
    assert "install 'headrace[tracing]'" in refused.stdout + refused.stderr


def test_the_data_source_needs_the_native_core_only(wheels: list[Path]) -> None:
    """Executors install the data source and the native core, without the services."""
    (wheel,) = (wheel for wheel in wheels if wheel.name.startswith("pyspark_headrace-"))
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (entry for entry in archive.namelist() if entry.endswith("/METADATA"))
        required = re.findall(r"^Requires-Dist: ([\w.-]+)[^;\n]*$", archive.read(metadata).decode(), re.MULTILINE)
    assert sorted(required) == ["grpcio", "headrace-core", "pyarrow", "xxhash"]


def test_wheels_are_complete(wheels: list[Path]) -> None:
    """Names, metadata, extras, licenses; the wheel of the core is for this machine only."""
    assert {wheel.name.partition("-")[0] for wheel in wheels} == {"headrace", "headrace_core", "pyspark_headrace"}
    assert [problem for wheel in wheels for problem in finished.problems(wheel, checkout.version())] == []
