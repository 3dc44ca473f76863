"""The order in which crates import each other, and which of them may touch the world."""

import json
import os
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "core"

# Each crate with everything that stands below it. A new crate gets its place here first.
BELOW: dict[str, set[str]] = {
    "headrace-features": set(),
    "headrace-model": set(),
    "headrace-proto": set(),
    "headrace-wakeup": set(),
    "headrace-websocket": set(),
    "headrace-buffer": {"headrace-model"},
}
BELOW["headrace-ticket"] = {"headrace-model"}
BELOW["headrace-wire"] = BELOW["headrace-buffer"] | {"headrace-buffer"}
BELOW["headrace-columns"] = BELOW["headrace-wire"] | {"headrace-wire"}
BELOW["headrace-tables"] = BELOW["headrace-columns"] | {"headrace-columns"}
BELOW["headrace-catalog"] = BELOW["headrace-wire"] | {"headrace-wire", "headrace-proto"}
BELOW["headrace-log"] = BELOW["headrace-wire"] | {"headrace-wire"}
BELOW["headrace-partition"] = BELOW["headrace-log"] | {"headrace-log"}
BELOW["headrace-link"] = BELOW["headrace-partition"] | {"headrace-partition"}
BELOW["headrace-shard"] = (
    BELOW["headrace-link"]
    | BELOW["headrace-catalog"]
    | {"headrace-link", "headrace-catalog", "headrace-ticket", "headrace-websocket"}
)
BELOW["headrace-runtime"] = BELOW["headrace-shard"] | {"headrace-shard", "headrace-wakeup"}
BELOW["headrace-edge"] = BELOW["headrace-runtime"] | {"headrace-runtime"}
BELOW["headrace-client"] = BELOW["headrace-wire"] | {"headrace-wire", "headrace-websocket"}
BELOW["headrace-bench"] = BELOW["headrace-client"] | {"headrace-client"}
BELOW["headrace-sdk-core"] = BELOW["headrace-wire"] | {"headrace-wire"}
BELOW["headrace-engine"] = BELOW["headrace-client"] | {"headrace-client", "headrace-sdk-core"}
BELOW["headrace-vsr"] = BELOW["headrace-buffer"] | {"headrace-buffer"}
BELOW["headrace-lossy-disk"] = set()
BELOW["headrace-replica"] = BELOW["headrace-vsr"] | {"headrace-vsr", "headrace-wakeup"}
BELOW["headrace-sim"] = BELOW["headrace-replica"] | BELOW["headrace-shard"] | {"headrace-replica", "headrace-shard"}
BELOW["headrace-python"] = (
    BELOW["headrace-edge"]
    | {"headrace-edge", "headrace-features"}
    | BELOW["headrace-replica"]
    | {
        "headrace-runtime",
        "headrace-bench",
        "headrace-client",
        "headrace-engine",
        "headrace-sdk-core",
        "headrace-columns",
        "headrace-tables",
        "headrace-replica",
        "headrace-ticket",
        "headrace-websocket",
    }
)

# Step functions: what they need of the world is handed in as values.
PURE = (
    "model",
    "buffer",
    "wire",
    "websocket",
    "sdk-core",
    "columns",
    "tables",
    "log",
    "catalog",
    "partition",
    "link",
    "ticket",
    "shard",
    "proto",
    "vsr",
)
WORLD = re.compile(
    r"\b(std::(fs|thread|process|env|os)\b|(Tcp|Udp|Unix)(Stream|Listener|Socket)|std::time::(Instant|SystemTime)|(Instant|SystemTime)::now|tokio|libc::)"
)


def test_crates_import_only_downwards() -> None:
    metadata = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"],
        cwd=CORE,
        capture_output=True,
        check=True,
    )
    packages = json.loads(metadata.stdout)["packages"]
    ours = {package["name"]: package for package in packages if package["name"].startswith("headrace-")}
    assert ours.keys() == BELOW.keys()
    for name, package in ours.items():
        dependencies = {dependency["name"] for dependency in package["dependencies"]}
        upward = {name for name in dependencies if name.startswith("headrace-")} - BELOW[name]
        assert not upward, f"{name} imports {sorted(upward)}, which are not below it"


@pytest.mark.parametrize("crate", PURE)
def test_pure_crates_do_not_touch_the_world(crate: str) -> None:
    """SHARD-11: the same cores run under a simulator, so no clock, file or thread may hide in them."""
    for source in sorted((CORE / "crates" / crate / "src").rglob("*.rs")):
        code = re.sub(r"//.*", "", source.read_text(encoding="utf-8").split("#[cfg(test)]")[0])
        found = WORLD.search(code)
        assert not found, f"{source.relative_to(ROOT)} names {found[0]}"


def _built(*command: str) -> dict[tuple[str, str], set[tuple[str, ...]]]:
    """Return the sets of features that a build compiles each third-party crate with."""
    # The list of units is an option of unreleased compilers only.
    given = ["cargo", *command, "--locked", "--offline", "--unit-graph", "-Z", "unstable-options"]
    environment = os.environ | {"RUSTC_BOOTSTRAP": "1"}
    units = json.loads(subprocess.run(given, cwd=CORE, env=environment, capture_output=True, check=True).stdout)[
        "units"
    ]
    built = defaultdict(set)
    for unit in units:
        if unit["mode"] == "build" and unit["pkg_id"].startswith("registry+"):
            # Code that runs while others are built has a profile of its own.
            built[unit["pkg_id"], unit["profile"]["opt_level"]].add(tuple(sorted(unit["features"])))
    return built


_EVERY_CRATE = ("--workspace", "--exclude", "headrace-python")


@pytest.mark.parametrize(
    "build",
    [
        ("build", "--package", "headrace-python", "--features", "extension-module"),
        ("build", *_EVERY_CRATE, "--bins"),
    ],
    ids=["the native module", "programs"],
)
def test_builds_share_their_crates_with_the_tests(build: tuple[str, ...]) -> None:
    """A crate with other features in one build is compiled twice, with all crates above it: crates/features."""
    built, tests = _built(*build), _built("test", *_EVERY_CRATE, "--no-run")
    assert len(built) > 50
    twice = {
        crate: (features, tests[crate])
        for crate, features in built.items()
        if not features <= tests.get(crate, features)
    }
    assert not twice
