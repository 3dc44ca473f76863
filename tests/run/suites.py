"""Suites of the tests: the command of each, for the tier that is run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

ROOT: Final = Path(__file__).resolve().parents[2]
CORE: Final = ROOT / "core"
PROGRAMS: Final = Path(os.environ.get("CARGO_TARGET_DIR", CORE / "target")) / "debug"
"""Programs that `make setup-test` has built."""
Tier = Literal["quick", "long", "all"]

WORKERS: Final = int(os.environ.get("TEST_WORKERS", "5"))
"""Number of parallel tests. It exceeds the number of cores because many tests wait. Tests that measure the machine or
use all of it run one by one afterwards. Each worker runs a consecutive part of the files, so that servers shared by
the tests of a file start once.
"""
SPARK_WORKERS: Final = int(os.environ.get("SPARK_WORKERS", "4"))
"""Number of parallel tests with Spark, which compute most of the time."""

NO_TESTS: Final = 5
"""Exit status of pytest if nothing is selected."""

# The drivers differ in how they serve sockets, files and timers. Logic above them (codecs, permissions, catalog), logic
# in Python and work on separate threads is the same on both, so its tests run once, on the default driver. One file for
# each Python listener, the embedded server and the command line checks that it works on the fallback driver.
_FALLBACK: Final = (
    "embedded/tests/test_embedded.py",
    "client/tests/commands/test_commands.py",
    "tests/sdk/test_sending.py",
    "tests/sdk/test_consuming.py",
    "tests/apis/grpc/test_messages.py",
    "tests/apis/http/test_messages.py",
    "tests/encryption/test_tls.py",
    "tests/encryption/test_quic.py",
    "tests/faults/test_damage.py",
    "tests/faults/test_full_disk.py",
    "tests/faults/test_kill.py",
    "tests/faults/test_memory.py",
    "tests/faults/test_open_files.py",
    "tests/faults/test_stop.py",
    "tests/faults/test_write_errors.py",
    "tests/nodes/test_data.py",
    *(
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests/compatibility").glob("test_*.py"))
        if path.name != "test_recorded.py"
    ),
    "tests/compatibility/messages",
    "tests/compatibility/access/test_sessions.py",
    "tests/compatibility/catalog/test_partitions_and_segments.py",
    "tests/compatibility/groups/test_consumer_offsets.py",
    "tests/compatibility/groups/test_members.py",
)


@dataclass(frozen=True, slots=True)
class Suite:
    """A command whose outcome is one line of the verdict."""

    name: str
    shows: str
    commands: tuple[tuple[str, ...], ...]
    """Commands that run one after the other; the first failure ends the suite."""
    directory: Path = ROOT
    environment: Mapping[str, str] = field(default_factory=dict)
    is_pytest: bool = False
    """True if the command is pytest, which then writes its progress into a file."""

    def shown(self) -> str:
        """Return what a person types to repeat the suite."""
        where = "" if self.directory == ROOT else f"cd {self.directory.relative_to(ROOT)} && "
        given = "".join(f"{name}={value} " for name, value in self.environment.items())
        return where + given + " && ".join(shlex.join(command) for command in self.commands)


@dataclass(frozen=True, slots=True)
class Choice:
    """Tests that a run is asked for."""

    tier: Tier
    seed: str
    part: str = ""
    """One of several parts of the long tests, as `I/N`; empty for all of them."""
    only: tuple[str, ...] = ()
    """Names of the suites to run; empty for all of them."""


def stages(choice: Choice) -> list[list[list[Suite]]]:
    """Return the suites of a run: stages run one after the other, the chains of a stage at a time.

    Tests of the crates mostly wait, for disks and timeouts; the simulator computes meanwhile.
    """
    crates = [] if choice.tier == "long" else [_crates(choice)]
    all_stages = [
        [crates, [_collection(choice), _simulator(choice), _state_machine(choice)]],
        [[_python(choice, "python", "not alone"), _python(choice, "python-alone", "alone")]],
        [[*_spark(choice)]],
        [
            [
                _fallback(choice, "fallback", "not alone"),
                *_fallback_files(choice),
                _fallback(choice, "fallback-alone", "alone"),
            ]
        ],
    ]
    chosen = [
        [[suite for suite in chain if not choice.only or suite.name in choice.only] for chain in stage]
        for stage in all_stages
    ]
    return [chains for stage in chosen if (chains := [chain for chain in stage if chain])]


def _crates(choice: Choice) -> Suite:
    command = (sys.executable, "-m", "tests.crates", "--locked", "--workspace", "--exclude", "headrace-python")
    # The suite goes on where a crate has failed, and reports all failures.
    return Suite(
        "crates",
        "unit and property tests of the crates",
        ((*command, "--no-fail-fast"),),
        environment={"PROPTEST_RNG_SEED": choice.seed},
    )


def _collection(choice: Choice) -> Suite:
    # Each worker of a later suite imports all tests. The first import compiles them, 14 s of processor time, which all
    # workers that begin at the same time would spend.
    shows = "imports of all tests, which compile them for the suites that follow"
    return Suite("collection", shows, (_pytest(choice, "--collect-only", "-qq"),))


def _simulator(choice: Choice) -> Suite:
    # The long run alone asks for every kind of event: a short one may lack one by chance.
    is_quick = choice.tier == "quick"
    runs, host_runs, data_runs = (600, 90, 150) if is_quick else (2000, 300, 2000)
    floors = () if is_quick else ("--floors",)
    program = (str(PROGRAMS / "headrace-sim"), "run")
    given = ("--first", f"{choice.seed}000", "--jobs", "2", *floors)
    # Of the data node always the same seeds, until as many others have held as of the core (docs/testing.md).
    data = ("--first", "0", "--jobs", "2", *floors, "--runs", str(data_runs))
    return Suite(
        "simulator",
        "the replication core, its production host, and a data node, under simulated faults",
        (
            (*program, *given, "--runs", str(runs)),
            (*program, "--host", *given, "--runs", str(host_runs)),
            (*program, "--data", *data),
        ),
    )


def _state_machine(choice: Choice) -> Suite:
    given = ("RUNS=40", "FLOORS=") if choice.tier == "quick" else ("RUNS=120",)
    return Suite(
        "state-machine",
        "the simulator with the metadata service's own state machine, and bugs planted there",
        (("make", "--no-print-directory", "sim-machine", *given),),
    )


def _pytest(choice: Choice, *arguments: str) -> tuple[str, ...]:
    command = [str(Path(sys.executable).with_name("pytest")), f"--hypothesis-seed={choice.seed}", "--tier", choice.tier]
    if choice.part:
        command += ["--part", choice.part, "--part-seed", choice.seed]
    # Containers and the rules of the source have commands of their own: `make cluster-test` and `make check`.
    return (*command, "--ignore", "tests/containers", "--ignore", "tests/architecture", *arguments)


def _parallel(workers: int) -> tuple[str, ...]:
    return ("--numprocesses", str(workers), "--dist", "worksteal")


def _python(choice: Choice, name: str, marked: str) -> Suite:
    if marked == "alone":
        workers, files = (), _files_with_alone()
        shows = "tests that measure the machine, one by one"
    else:
        workers, files = _parallel(WORKERS), ()
        shows = "packages, protocols, clients, connectors, faults"
    return Suite(name, shows, (_pytest(choice, *workers, "-m", marked, *files),), is_pytest=True)


def _files_with_alone() -> tuple[str, ...]:
    """Return the files that have the mark: collecting all others would take longer than some of their tests."""
    listed = subprocess.run(
        ["git", "grep", "--untracked", "--name-only", "--fixed-strings", "pytest.mark.alone", "--", "*/test_*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(listed.stdout.splitlines())


def _spark(choice: Choice) -> list[Suite]:
    tests = _pytest(choice, *_parallel(SPARK_WORKERS), "spark/tests")
    spark = Suite("spark", "the data source and the jobs, on a real Spark", (tests,), is_pytest=True)
    if choice.tier == "quick":
        return [spark]
    # The other engine runs the contract alone, all of it.
    contract = _pytest(Choice("all", choice.seed), "spark/tests/contract")
    engine = {"SPARK_TESTS_ENGINE": "sail", "PYTHONPATH": str(ROOT / ".cache/sail")}
    return [spark, Suite("sail", "the data source on Sail", (contract,), environment=engine, is_pytest=True)]


def _fallback(choice: Choice, name: str, marked: str) -> Suite:
    workers = () if marked == "alone" else _parallel(WORKERS)
    files = _FALLBACK
    if marked == "alone":
        files = tuple(file for file in _files_with_alone() if file.startswith(_FALLBACK))
    shows = "tests whose result may differ on the driver for hosts without io_uring"
    return _on_fallback(name, shows, _pytest(choice, *workers, "-m", marked, *files))


def _fallback_files(choice: Choice) -> list[Suite]:
    if choice.tier == "quick":
        return []
    shows = "other faults on that driver, of both tiers"
    # The outcome of other faults depends on what is read at a start, with code that the drivers share.
    others = (f"--ignore={file}" for file in ("tests/faults/metadata", *_FALLBACK) if file.startswith("tests/faults/"))
    command = _pytest(replace(choice, tier="all"), *_parallel(WORKERS), *others, "tests/faults")
    return [_on_fallback("fallback-files", shows, command)]


def _on_fallback(name: str, shows: str, command: tuple[str, ...]) -> Suite:
    return Suite(name, shows, (command,), environment={"HEADRACE_RUNTIME_DRIVER": "poll"}, is_pytest=True)
