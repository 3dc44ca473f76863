"""LOG-12, LOG-21: `headrace fsck` names every damaged, missing and foreign file, and repairs what is derived."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from headrace.cli import schemas
from headrace_core import check_partition
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code
from tests.faults import segment_files
from tests.faults.conftest import MESSAGES_COUNT, NEIGHBOUR, VICTIMS_COUNT, Prepared, Victim
from tests.faults.segment_files import cut, flip

FLIPS_COUNT = 100


def run_headrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program as a user does."""
    program = Path(sys.executable).with_name("headrace")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=120)


def checked(victim: Victim, *, repair: bool = False) -> list[dict[str, Any]]:
    """Return the findings about a partition."""
    catalog = json.loads((victim.directory.parents[5] / "info.json").read_text())["catalog"]
    found = json.loads(check_partition(str(victim.directory), (0, 0, victim.number), catalog, repair))
    assert found["bytes"] > 0
    return list(found["findings"])


def test_an_intact_directory_has_no_findings(prepared: Prepared) -> None:
    for victim in prepared.victims(VICTIMS_COUNT):
        assert checked(victim) == []


def test_a_purged_topic_has_no_findings(prepared: Prepared) -> None:
    """A purge leaves a manifest without a copy until there are messages again."""
    with prepared.start() as connection:
        connection.ok(Code.PURGE_TOPIC, frames.ident("s") + frames.ident("t"))
    prepared.server.stop()
    for victim in prepared.victims(VICTIMS_COUNT):
        assert checked(victim) == []


def test_every_flipped_byte_is_named(prepared: Prepared) -> None:
    """Each of a hundred flipped bytes, in files of any kind, is found at its place; TEST_SEED repeats them."""
    seed = int(os.environ.get("TEST_SEED", time.time_ns() % 1_000_000))
    choice = random.Random(seed)
    missed = []
    for _ in range(FLIPS_COUNT):
        victim = prepared.victim(choice.randrange(VICTIMS_COUNT))
        files = sorted(file for file in victim.directory.iterdir() if file.stat().st_size)
        file = choice.choice(files)
        position = choice.randrange(file.stat().st_size)
        mask = choice.randrange(1, 256)
        flip(file, position, mask=mask)
        places = [finding for finding in checked(victim) if finding["file"] == file.name]
        flip(file, position, mask=mask)
        if file.suffix == ".json":
            is_named = bool(places)
        elif file.suffix == ".log":
            is_named = any(place["position"] <= position < place["position"] + place["bytes"] for place in places)
        else:
            is_named = any(place["position"] <= position < place["position"] + 32 for place in places)
        if not is_named:
            missed.append((file.name, position, mask, places))
    assert missed == [], f"TEST_SEED={seed}"


def test_what_is_derived_is_repaired(prepared: Prepared) -> None:
    """Manifests, their copies and indexes are written anew; the server then serves everything."""
    manifest, copy, both, index = prepared.victims(4)
    cut(manifest.directory / "partition.json", 0)
    (copy.directory / "partition.copy.json").unlink()
    for name in ("partition.json", "partition.copy.json"):
        flip(both.directory / name, 30)
    flip(index.sealed.with_suffix(".index"), 3)
    for victim in (manifest, copy, both, index):
        before = {file: file.read_bytes() for file in victim.directory.iterdir()}
        assert checked(victim)
        assert {file: file.read_bytes() for file in victim.directory.iterdir()} == before, "nothing is changed"
        assert all(finding["repaired"] for finding in checked(victim, repair=True) if "copy" not in finding["file"])
    for victim in (manifest, copy, index):
        assert checked(victim) == []
    with prepared.start() as connection:
        for victim in (manifest, copy, both, index):
            victim.assert_complete(connection)


def lose_the_first(victim: Victim, _other: Victim) -> tuple[str, str]:
    """Remove the first log."""
    log = segment_files.logs(victim.directory)[0]
    log.unlink()
    return log.name, "missing"


def lose_the_last(victim: Victim, _other: Victim) -> tuple[str, str]:
    """Remove the open log."""
    log = victim.open_segment
    log.unlink()
    return log.name, "missing"


def shorten(victim: Victim, _other: Victim) -> tuple[str, str]:
    """Cut a sealed log at a message."""
    message = segment_files.messages(victim.sealed)[-5]
    cut(victim.sealed, message.position)
    return victim.sealed.name, "damaged"


def exchange(victim: Victim, other: Victim) -> tuple[str, str]:
    """Take a log of the neighbour."""
    shutil.copyfile(other.sealed, victim.sealed)
    return victim.sealed.name, "foreign"


def exchange_and_damage(victim: Victim, other: Victim) -> tuple[str, str]:
    """Take a log of the neighbour whose first message is damaged."""
    exchange(victim, other)
    flip(victim.sealed, 3)
    return victim.sealed.name, "foreign"


def exchange_offsets(victim: Victim, other: Victim) -> tuple[str, str]:
    """Take the stored offsets of the neighbour."""
    shutil.copyfile(other.directory / "offsets", victim.directory / "offsets")
    return "offsets", "damaged"


def exchange_manifest(victim: Victim, other: Victim) -> tuple[str, str]:
    """Take the manifest of the neighbour."""
    shutil.copyfile(other.directory / "partition.json", victim.directory / "partition.json")
    return "partition.json", "foreign"


def add_a_log(victim: Victim, other: Victim) -> tuple[str, str]:
    """Add a log that the partition does not have."""
    name = f"{9_000:020}.log"
    shutil.copyfile(other.sealed, victim.directory / name)
    return name, "foreign"


@pytest.mark.parametrize(
    "harm",
    [
        lose_the_first,
        lose_the_last,
        shorten,
        exchange,
        exchange_and_damage,
        exchange_offsets,
        exchange_manifest,
        add_a_log,
    ],
)
def test_lost_and_exchanged_files_are_named(prepared: Prepared, harm: Any) -> None:
    victim = prepared.victim(0)
    expected = harm(victim, prepared.victim(NEIGHBOUR))
    assert expected in {(finding["file"], finding["kind"]) for finding in checked(victim)}


def test_the_command(prepared: Prepared, tmp_path: Path) -> None:
    """The exit status, the form for programs, and the refusal while a server runs."""
    data = str(prepared.server.data)
    intact = run_headrace("fsck", data, "--output", "json")
    assert intact.returncode == 0, intact.stderr
    document = json.loads(intact.stdout)
    jsonschema_rs.validate(schemas.schema("fsck"), document)
    assert document["partitions_count"] == VICTIMS_COUNT + 1
    assert document["messages_count"] == MESSAGES_COUNT * (VICTIMS_COUNT + 1)
    assert document["problems_count"] == 0
    victim = prepared.victim(7)
    damaged = segment_files.messages(victim.sealed)[10]
    flip(victim.sealed, damaged.position + 100)
    found = run_headrace("fsck", data)
    assert found.returncode == 1
    assert f"streams/0/topics/0/partitions/7/{victim.sealed.name}" in found.stdout
    assert "1 problems" in found.stdout
    assert run_headrace("fsck", str(tmp_path / "nowhere")).returncode == 2
    prepared.server.start()
    refused = run_headrace("fsck", data)
    assert refused.returncode == 1
    assert "in use" in refused.stderr
