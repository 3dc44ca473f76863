"""LOG-21: damage in a file that no client reads is found and named while the server runs."""

from __future__ import annotations

import json
import struct
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.cli.diagnosis import partition_files
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.conftest import TWO_SHARDS
from tests.faults import segment_files
from tests.faults.conftest import NEIGHBOUR, VICTIMS_COUNT, Prepared
from tests.faults.segment_files import flip
from tests.faults.workload import Gate, Workload, join_all
from tests.server_process import ServerProcess

FAST: Mapping[str, str] = {"SYSTEM_SCRUB_RATE": "256 MiB", "SYSTEM_SCRUB_INTERVAL": "1 s"}


def scraped(server: ServerProcess) -> dict[str, float]:
    """Return the metrics of the scrub."""
    with urllib.request.urlopen(f"{server.http_url}/metrics", timeout=30) as response:
        families = text_string_to_metric_families(response.read().decode())
        samples = [sample for family in families for sample in family.samples]
    return {sample.name: sample.value for sample in samples if sample.name.startswith("headrace_scrub")}


def until_passed(server: ServerProcess, passes: int = 1) -> None:
    """Wait for the ends of passes: each ends in another second."""
    for _ in range(passes):
        before = scraped(server)["headrace_scrub_pass_ended_timestamp_seconds"]
        eventually(
            "a pass ends",
            lambda before=before: scraped(server)["headrace_scrub_pass_ended_timestamp_seconds"] > before,
            timeout_seconds=120,
        )


@pytest.mark.long
def test_a_flipped_byte_is_named_by_the_running_server(prepared: Prepared) -> None:
    """A pass over intact files finds nothing, the next one finds the damage, and it is found after a restart."""
    server = prepared.server
    server.settings |= FAST
    victim, index, offsets = prepared.victims(3)
    connection = prepared.start()
    until_passed(server)
    assert scraped(server)["headrace_scrub_damaged_places"] == 0
    damaged = segment_files.messages(victim.sealed)[20]
    flip(victim.sealed, damaged.position + 100)
    flip(index.sealed.with_suffix(".index"), 3)
    flip(offsets.directory / "offsets", 5)
    place = f"streams/0/topics/0/partitions/0/{victim.sealed.name} at {damaged.position}, from offset {damaged.offset}"
    eventually("all is found", lambda: scraped(server)["headrace_scrub_damaged_places"] == 3, timeout_seconds=120)
    eventually("it is logged", lambda: bool(prepared.log_lines("scrub:", place)), timeout_seconds=30)
    verdicts = {check["check"]: check for check in partition_files.checks(server.data)}
    assert verdicts["damaged files"]["verdict"] == "fail"
    assert victim.sealed.name in verdicts["damaged files"]["found"]
    until_passed(server, 2)
    assert len(prepared.log_lines("scrub:")) == 3, "each place is logged once"
    # Messages and files around the damage are as they were.
    prepared.victim(NEIGHBOUR).assert_complete(connection)
    connection.close()
    prepared.restart().close()
    assert scraped(server)["headrace_scrub_damaged_places"] == 3
    flip(victim.sealed, damaged.position + 100)
    eventually("it is whole again", lambda: scraped(server)["headrace_scrub_damaged_places"] < 3, timeout_seconds=120)


def test_a_pass_goes_on_after_a_restart(prepared: Prepared) -> None:
    """A slow pass that is interrupted continues behind what it has checked."""
    server = prepared.server
    server.settings |= {"SYSTEM_SCRUB_RATE": "512 KiB"}
    progress = server.data / "scrub.json"
    progress.unlink(missing_ok=True)
    prepared.start().close()

    eventually("the position is kept", progress.exists, timeout_seconds=60)
    position = json.loads(progress.read_bytes())["position"]["partition"]
    assert 0 < position < VICTIMS_COUNT
    server.kill()
    # The damage is in what was checked already: this pass does not come back to it.
    flip(prepared.victim(0).sealed, 500)
    server.settings |= {"SYSTEM_SCRUB_RATE": "256 MiB"}
    server.start()
    eventually("the pass ends", lambda: scraped(server)["headrace_scrub_pass_ended_timestamp_seconds"] > 0)
    assert scraped(server)["headrace_scrub_damaged_places"] == 0


def test_no_scrub_without_a_rate(prepared: Prepared) -> None:
    prepared.server.settings |= {"SYSTEM_SCRUB_RATE": "0"}
    prepared.start().close()
    assert scraped(prepared.server) == {}


def test_a_topic_that_is_deleted_is_let_go(prepared: Prepared) -> None:
    """Work of the scrub holds up neither the deletion of a topic nor the end of the server, and damage goes with it."""
    server = prepared.server
    server.settings |= FAST
    flip(prepared.victim(0).sealed, 500)
    connection = prepared.start()
    eventually("it is found", lambda: scraped(server)["headrace_scrub_damaged_places"] == 1, timeout_seconds=120)
    connection.ok(Code.DELETE_TOPIC, frames.ident("s") + frames.ident("t"))
    eventually(
        "its damage is forgotten", lambda: scraped(server)["headrace_scrub_damaged_places"] == 0, timeout_seconds=120
    )
    connection.close()


@pytest.mark.long
def test_what_is_being_written_is_no_damage(tmp_path: Path) -> None:
    """Writes, stored offsets, removals, purges, deletions and kills are not taken for damage."""
    settings = TWO_SHARDS | FAST | {"SYSTEM_SEGMENT_SIZE": "16 KiB", "MESSAGE_SAVER_SYNC_INTERVAL": "20 ms"}
    server = ServerProcess(tmp_path / "data", settings).start()
    gate = Gate(server.address)
    workload = Workload(gate, seed=7)
    workload.start()
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("changing", partitions=4)
    for _ in range(2):
        gate.open()
        with RawConnection.as_root(server.address) as connection:
            for _ in range(30):
                for partition in range(4):
                    connection.send("changing", "t", partition, *[bytes(900)] * 20)
                    connection.send("changing", "t", partition, *[bytes(900)] * 20)
                    place = frames.ident("changing") + frames.ident("t") + struct.pack("<I", partition)
                    connection.ok(Code.DELETE_SEGMENTS, place + struct.pack("<I", 1))
                connection.ok(Code.PURGE_TOPIC, frames.ident("changing") + frames.ident("t"))
        workload.check_alive()
        gate.shut()
        server.kill()
        gate.wait_all_left()
        server.start()
    gate.finish()
    join_all(workload.workers)
    until_passed(server, 2)
    assert scraped(server)["headrace_scrub_damaged_places"] == 0
    assert server.stop() == 0
    assert "scrub:" not in server.log.read_text(encoding="utf-8")
