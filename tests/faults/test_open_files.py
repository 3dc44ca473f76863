"""CTL-15, LOG-14: a limit of open files below the number of partitions bounds connections, and ends nothing."""

from __future__ import annotations

import re
import socket
from contextlib import ExitStack
from pathlib import Path

from tests.compatibility.protocol.codes import Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.up_process import PROGRAM, up

OPEN_FILES = 400
PARTITIONS = 700
PASSWORD = {"HEADRACE_ROOT_USERNAME": "iggy", "HEADRACE_ROOT_PASSWORD": "iggy"}


def test_more_partitions_are_written_than_files_may_be_open(tmp_path: Path) -> None:
    limited = tmp_path / "headrace"
    limited.write_text(f'#!/bin/sh\nexec prlimit --nofile={OPEN_FILES}:{OPEN_FILES} {PROGRAM} "$@"\n')
    limited.chmod(0o755)
    for starts in range(2):
        # The process is killed at the end of the block.
        with up(tmp_path / "data", program=limited, **PASSWORD) as (_, printed):
            assert re.search(rf"limit of open files is {OPEN_FILES}\b", printed), printed
            address = re.search(r"tcp +(\S+)", printed)
            assert address is not None, printed
            with RawConnection.as_root(address[1]) as root:
                if starts == 0:
                    root.create_topic("s", partitions=PARTITIONS)
                for partition in range(PARTITIONS):
                    root.send("s", "t", partition, b"%d" % partition)
            # Another client finds a descriptor, and every partition its messages.
            with RawConnection.as_root(address[1]) as other:
                for partition in range(PARTITIONS):
                    payloads = other.poll("s", "t", partition, Strategy.FIRST).payloads
                    assert payloads == [b"%d" % partition] * (starts + 1)


def test_connections_leave_files_to_the_log(tmp_path: Path) -> None:
    """Regression: idle clients of HTTP took all descriptors, and appends waited until they were disconnected."""
    limited = tmp_path / "headrace"
    # The log goes to a file: a pipe that is not read would hold the server up when it is full.
    command = f'exec prlimit --nofile={OPEN_FILES}:{OPEN_FILES} {PROGRAM} "$@" 2>{tmp_path / "log"}'
    limited.write_text(f"#!/bin/sh\n{command}\n")
    limited.chmod(0o755)
    settings = PASSWORD | {"HEADRACE_HTTP_FIRST_REQUEST_TIMEOUT": "1 h"}
    with up(tmp_path / "data", program=limited, **settings) as (_, printed), ExitStack() as stack:
        addresses = [re.search(rf"{name} +(?:http://)?(\S+):(\d+)", printed) for name in ("tcp", "http")]
        assert all(addresses), printed
        (tcp_host, tcp_port), (host, port) = (found.groups() for found in addresses if found is not None)
        with RawConnection.as_root(f"{tcp_host}:{tcp_port}") as root:
            root.create_topic("s", partitions=100)
            for _ in range(OPEN_FILES):
                stack.enter_context(socket.create_connection((host, int(port)), 20))
            for partition in range(100):
                root.send("s", "t", partition, b"x")
