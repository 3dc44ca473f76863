"""LOG-13, LOG-14: a topic whose removal is killed leaves its number to others.

What was moved to `removed` before the kill is removed after it. What was not is set aside when the number is used
again: its directory alone does not distinguish a topic that was deleted from one that was restored to the wrong place.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Strategy
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.server_process import ServerProcess

PARTITIONS = 4
SEGMENTS = 25
SETTINGS = {"SYSTEM_SEGMENT_SIZE": "64 KiB"}


def test_a_topic_after_one_whose_removal_was_killed_works(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", SETTINGS).start()
    try:
        for attempt in range(5):
            with RawConnection.as_root(server.address) as root:
                root.create_topic("s", partitions=PARTITIONS)
                for partition in range(PARTITIONS):
                    for _ in range(SEGMENTS):
                        root.send("s", "t", partition, *[bytes(1000)] * 64)
                root.ok(Code.DELETE_TOPIC, frames.ident("s") + frames.ident("t"))
                time.sleep(0.001 * attempt)
                server.kill()
            server.start()
            with RawConnection.as_root(server.address) as root:
                root.ok(Code.CREATE_TOPIC, frames.create_topic("s", "t", PARTITIONS))
                for partition in range(PARTITIONS):
                    root.send("s", "t", partition, b"of the new topic")
                    assert root.poll("s", "t", partition, Strategy.FIRST).payloads == [b"of the new topic"]
                root.ok(Code.DELETE_STREAM, frames.ident("s"))
        eventually("nothing is left of the topics", lambda: not logs_below(server.data / "streams"))
    finally:
        server.stop()


def logs_below(directory: Path) -> list[str]:
    """Return the paths of log files that were not set aside, also while files are removed."""
    paths = (f"{parent}/{name}" for parent, _, names in os.walk(directory) for name in names if name.endswith(".log"))
    return [path for path in paths if "/set-aside/" not in path]
