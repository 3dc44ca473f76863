"""LOG-21: what does not belong to a partition is counted and named, and kept when the partition is deleted."""

from __future__ import annotations

import shutil
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from headrace.cli.diagnosis import partition_files
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import eventually
from tests.faults.conftest import NEIGHBOUR, Prepared
from tests.server_process import ServerProcess


def counted(server: ServerProcess) -> dict[str, float]:
    """Return the gauges of what needs an operator, summed over the shards."""
    with urllib.request.urlopen(f"{server.http_url}/metrics", timeout=30) as response:
        families = text_string_to_metric_families(response.read().decode())
        samples = [sample for family in families for sample in family.samples]
    names = ("failed_partitions", "failing_files", "foreign_partitions", "set_aside_files", "set_aside_directories")
    found = dict.fromkeys(names, 0.0)
    for sample in samples:
        name = sample.name.removeprefix("headrace_shard_").removeprefix("headrace_node_")
        if name in found and name != sample.name:
            found[name] += sample.value
    return found


def test_it_is_counted_and_outlives_the_topic(prepared: Prepared) -> None:
    server = prepared.server
    foreign, added = prepared.victims(2)
    neighbour = prepared.victim(NEIGHBOUR)
    shutil.rmtree(foreign.directory)
    shutil.copytree(neighbour.directory, foreign.directory)
    shutil.copyfile(neighbour.sealed, added.directory / f"{9_000:020}.log")
    # A file that was being written when the server was killed is removed at the next start.
    before = {file.name: file.read_bytes() for file in foreign.directory.iterdir() if file.suffix != ".tmp"}
    with prepared.start() as connection:
        eventually(
            "it is counted",
            lambda: (
                counted(server)
                == {
                    "failed_partitions": 1,
                    "failing_files": 0,
                    "foreign_partitions": 1,
                    "set_aside_files": 1,
                    "set_aside_directories": 0,
                }
            ),
        )
        connection.ok(Code.DELETE_TOPIC, frames.ident("s") + frames.ident("t"))
        kept = server.data / "streams/set-aside/0-0-0.0"
        eventually("the partitions are gone", lambda: not foreign.directory.parent.exists(), timeout_seconds=60)
        assert {file.name: file.read_bytes() for file in kept.iterdir()} == before
        assert [path.name for path in kept.parent.iterdir()] == [kept.name]
        nothing = dict.fromkeys(counted(server), 0)
        eventually("one is left", lambda: counted(server) == nothing | {"set_aside_directories": 1})
        eventually("it is logged", lambda: bool(prepared.log_lines("partition 0/0/0 is deleted")))
    (line,) = prepared.log_lines("partition 0/0/0 is deleted", str(kept))
    assert f"the directory belongs to partition 0/0/{NEIGHBOUR}" in line
    (check,) = [check for check in partition_files.checks(server.data) if check["check"] == "set aside"]
    assert (check["verdict"], check["found"]) == ("warn", "streams/set-aside/0-0-0.0")
