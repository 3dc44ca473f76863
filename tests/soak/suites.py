"""Suites of a soak run: the command of one round, and the suite's requirements on the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_BIN: Final = Path(sys.executable).parent
_SIMULATOR: Final = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "core/target")) / "debug/headrace-sim"
_STATE_MACHINE: Final = f"{sys.executable} {ROOT / 'services/metadata/tests/simulated'}"
_PYTEST: Final = (str(_BIN / "pytest"), "--quiet", "-p", "no:cacheprovider", "--timeout", "0")


@dataclass(frozen=True, slots=True)
class Round:
    """One run of a suite."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: Path = ROOT


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite that can run repeatedly, with a new seed each time."""

    name: str
    shows: str
    round_of: Callable[[int, int], Round]
    """Build a round from seed and seconds. A suite without a time option gets an amount of work that takes about so
    long.
    """
    missing: Callable[[], str] = lambda: ""
    """Return the reason why the suite cannot run on this machine; empty if it can."""
    share: float = 1.0
    """Share of the time, relative to the other suites."""
    seconds: int = 60
    """Preferred duration of a round in seconds, long enough to outweigh its startup."""
    seconds_min: int = 20
    """Minimum duration of a round; a shorter one is not begun."""


def _program(name: str, why: str) -> Callable[[], str]:
    return lambda: "" if shutil.which(name) or (_BIN / name).exists() else f"{name} is not installed: {why}"


def _file(path: Path, why: str) -> Callable[[], str]:
    return lambda: "" if path.exists() else f"{path} is not there: {why}"


def _module(name: str, why: str) -> Callable[[], str]:
    directory = name.replace(".", "/")
    return lambda: "" if list(_BIN.parent.glob(f"lib/python*/site-packages/{directory}")) else f"no {name}: {why}"


def _engine() -> str:
    if shutil.which("docker") is None:
        return "docker is not installed"
    try:
        running = subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=20).returncode == 0
        images = subprocess.run(
            ["docker", "image", "inspect", "headrace:dev"], capture_output=True, check=False, timeout=20
        )
    except subprocess.TimeoutExpired:
        return "the container engine does not answer"
    if not running:
        return "no container engine runs"
    return "" if images.returncode == 0 else "there are no images: compose/build makes them"


def _simulator(*arguments: str) -> Callable[[int, int], Round]:
    def round_of(seed: int, seconds: int) -> Round:
        given = ("run", "--first", str(seed), "--seconds", str(seconds), "--jobs", "2", *arguments)
        return Round((str(_SIMULATOR), *given))

    return round_of


def _mutants(seed: int, seconds: int) -> Round:
    del seconds
    return Round((str(_SIMULATOR), "mutants", "--first", str(seed), "--some", "4"))


def _tests(*paths: str, factor_seconds: float = 0.0, variable: str = "PROPERTY_FACTOR") -> Callable[[int, int], Round]:
    """Build rounds of pytest whose amount of work a variable scales.

    Args:
        paths: Arguments of pytest.
        factor_seconds: Seconds the tests take with the variable at 1; 0 if they have no variable.
        variable: Name of the variable.
    """

    def round_of(seed: int, seconds: int) -> Round:
        environment = {"TEST_SEED": str(seed)}
        if factor_seconds:
            environment[variable] = str(max(1, int(seconds / factor_seconds)))
        return Round((*_PYTEST, f"--hypothesis-seed={seed}", *paths), environment)

    return round_of


def _crates(seed: int, seconds: int) -> Round:
    crates = ("partition", "log", "shard", "wire", "vsr", "catalog", "columns", "websocket", "link")
    cases = str(64 * max(1, seconds))
    environment = {"PROPTEST_RNG_SEED": str(seed), "PROPTEST_CASES": cases}
    return Round(
        ("cargo", "test", "--locked", "--quiet", "--package", f"headrace-{crates[seed % len(crates)]}"),
        environment,
        ROOT / "core",
    )


def _sdk_faults(seed: int, seconds: int) -> Round:
    given = ("-m", "tests.faults.sdk", "--seed", str(seed), "--minutes", f"{seconds / 60:.2f}")
    return Round((sys.executable, *given))


def _changes(seed: int, seconds: int) -> Round:
    amount = ("--changes", str(400 * seconds), "--kills", str(max(3, seconds // 8)))
    return Round((sys.executable, "-m", "tests.connectors.soak", *amount, "--seed", str(seed)))


def _copies(seed: int, seconds: int) -> Round:
    given = ("--histories", "1000000", "--seconds", str(max(10, seconds - 10)), "--seed", str(seed))
    return Round((sys.executable, "-m", "tests.connectors.replica", *given))


def _postgresql() -> str:
    found = shutil.which("initdb") or list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return "" if found else "PostgreSQL is not installed: .ci/postgresql"


def _faults(part: str) -> Callable[[int, int], Round]:
    def round_of(seed: int, seconds: int) -> Round:
        rounds = str(max(1, seconds // 3))
        return Round((sys.executable, "-m", "tests.faults", "--only", part, "--rounds", rounds, "--seed", str(seed)))

    return round_of


def _spark_kills(seed: int, seconds: int) -> Round:
    kills = str(max(3, seconds // 6))
    return Round((sys.executable, "-m", "tests.faults.spark", "--kills", kills, "--seed", str(seed)))


def _spark_leaks(seed: int, seconds: int) -> Round:
    del seed
    return Round((sys.executable, "-m", "tests.faults.spark.leaks", "--batches", str(max(100, 3 * seconds))))


def _memory(seed: int, seconds: int) -> Round:
    return Round(
        (sys.executable, "-m", "tests.soak.memory", "--seconds", str(max(20, seconds - 15)), "--seed", str(seed))
    )


def _schemathesis(seed: int, seconds: int) -> Round:
    cases = str(max(1, seconds // 20))
    environment = {"HEADRACE_FUZZ_SEED": str(seed), "HEADRACE_FUZZ_CASES": cases}
    return Round((*_PYTEST, "tests/apis/http/description/test_fuzz.py"), environment)


def _decoders(seed: int, seconds: int) -> Round:
    targets = sorted(path.stem for path in (ROOT / "core/fuzz/fuzz_targets").glob("*.rs"))
    target = targets[seed % len(targets)]
    limits = (f"-max_total_time={seconds}", f"-seed={seed % 2**31}")
    return Round(("cargo", "fuzz", "run", target, "--", *limits), {"RUSTC_BOOTSTRAP": "1"}, ROOT / "core")


def _autobahn(seed: int, seconds: int) -> Round:
    del seed, seconds
    return Round((sys.executable, "-m", "tests.soak.autobahn"))


SUITES: Final = (
    Suite(
        "simulator",
        "the replication core under simulated crashes, power losses, networks and disks",
        _simulator(),
        _file(_SIMULATOR, "make soak builds it"),
        share=2.0,
    ),
    Suite(
        "state-machine",
        "the same with the metadata service's own state machine",
        _simulator("--state-machine", _STATE_MACHINE),
        _file(_SIMULATOR, "make soak builds it"),
    ),
    Suite(
        "mutants",
        "every bug planted in the replication core is found from other seeds, too",
        _mutants,
        _file(_SIMULATOR, "make soak builds it"),
        share=0.5,
    ),
    Suite(
        "kills",
        "a server that is killed under load keeps its promises",
        _tests("tests/faults/test_kill.py", factor_seconds=50),
    ),
    Suite(
        "memory",
        "a thousand partitions in little memory, with slow consumers: no request hangs, and nothing grows",
        _memory,
        seconds=120,
        seconds_min=60,
    ),
    Suite(
        "sdk-faults",
        "producers and consumers of the SDK, whose connections are cut and whose server is killed and paused",
        _sdk_faults,
        seconds_min=20,
    ),
    Suite(
        "changes",
        "changes of PostgreSQL through topics to a copy and to files, while connectors, server and database are killed",
        _changes,
        _postgresql,
        seconds=120,
        seconds_min=40,
    ),
    Suite(
        "copies",
        "random tables and transactions of PostgreSQL, whose copies are equal whenever they have caught up",
        _copies,
        _postgresql,
        seconds_min=30,
    ),
    Suite("metadata-faults", "replicas that are killed, paused and cut off, and their power", _faults("metadata")),
    Suite(
        "data-faults",
        "logs whose server is killed, and whose disk loses power",
        _faults("data"),
        missing=_file(Path("/dev/fuse"), "the power of a disk cannot be cut here"),
    ),
    Suite(
        "cluster-kills",
        "every process of a cluster is killed under load",
        _tests("tests/faults/cluster", factor_seconds=60, variable="CLUSTER_ROUNDS"),
        seconds=120,
        seconds_min=90,
    ),
    Suite(
        "state-machine-rules",
        "the state machine against its models",
        _tests("services/metadata/tests", factor_seconds=20),
    ),
    Suite(
        "control-rules",
        "rights, groups and push against their models",
        _tests(
            "tests/compatibility/access/test_permission_sequences.py",
            "tests/compatibility/groups/test_random.py",
            "tests/apis/push/test_codec_units.py",
            factor_seconds=15,
        ),
    ),
    Suite("crates", "property tests of the crates", _crates, _program("cargo", "rustup.rs")),
    Suite("schemathesis", "requests made of the description of the HTTP interface", _schemathesis, seconds_min=45),
    Suite(
        "decoders",
        "every decoder under a coverage-guided fuzzer",
        _decoders,
        _program("cargo-fuzz", "make fuzz installs it"),
        share=2.0,
    ),
    Suite(
        "autobahn",
        "the WebSocket endpoints against the Autobahn test suite",
        _autobahn,
        _program("wstest", "pip install autobahntestsuite, with a Python 2"),
        seconds=120,
    ),
    Suite(
        "spark-kills",
        "drivers, executors and servers killed under Spark",
        _spark_kills,
        _module("pyspark", "make setup-spark installs it"),
        seconds=120,
        seconds_min=60,
    ),
    Suite(
        "spark-leaks",
        "what a query of many micro-batches holds",
        _spark_leaks,
        _module("pyspark", "make setup-spark installs it"),
        share=0.5,
        seconds=120,
        seconds_min=60,
    ),
    Suite(
        "containers",
        "containers of the cluster killed under load",
        _tests("tests/containers/test_kills.py"),
        _engine,
        seconds=240,
        seconds_min=200,
    ),
)
