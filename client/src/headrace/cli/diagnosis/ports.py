"""Checks of the ports that a server listens on, and of the process that has one already."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from headrace.cli.diagnosis.machine import ok, warning
from headrace.cli.documents import CheckDocument

PORTS: Final = (
    (8090, "tcp", "the binary protocol"),
    (8092, "tcp", "WebSocket"),
    (8080, "udp", "QUIC"),
    (3000, "tcp", "HTTP"),
    (8094, "tcp", "gRPC"),
    (8101, "tcp", "pipelines"),
)
"""Ports that a server listens on unless its settings say something else."""
_LISTENING: Final = {"tcp": "0A", "udp": "07"}
"""State of a socket that takes connections, or datagrams from anywhere, in the tables of the kernel."""


def checks(server: str | None) -> Iterator[CheckDocument]:
    """Check every port.

    Args:
        server: Address of the server that is examined, whose own ports are as they should be; None: there is none.
    """
    process = None if server is None else _process_of(server)
    for number, transport, purpose in PORTS:
        yield port(number, transport, purpose, server=process)


def port(number: int, transport: str, purpose: str, *, server: int | None = None) -> CheckDocument:
    """Check whether a server could listen on a port of loopback.

    Args:
        number: The port.
        transport: `tcp` or `udp`.
        purpose: What a server has the port for.
        server: Process of the server that is examined, if it is on this machine.
    """
    check = f"port {number}"
    kind = socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, kind) as probe:
        if kind == socket.SOCK_STREAM:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError as error:
            found = f"{transport}, {purpose}: {os.strerror(error.errno or 0)}"
        else:
            return ok(check, f"{transport}, {purpose}: free")
    process = holder(number, transport)
    if process is None:
        shown = f"`ss -l{transport[0]}p 'sport = {number}'` shows"
        return warning(check, found, f"a running server has it, or the program that {shown}")
    if process == server:
        return ok(check, f"{transport}, {purpose}: this server has it")
    return warning(check, found, f"{_name(process)} has it (process {process}): a second server needs other ports")


def holder(number: int, transport: str) -> int | None:
    """Return the process that listens on a port of this machine; None if there is none that this user may see."""
    inodes = {f"socket:[{inode}]" for inode in _inodes(number, transport)}
    for directory in Path("/proc").glob("[0-9]*"):
        if any(target in inodes for target in _open_files(directory / "fd")):
            return int(directory.name)
    return None


def _open_files(directory: Path) -> Iterator[str]:
    # Processes of other users are not shown, and both a process and a single file may be gone meanwhile.
    with suppress(OSError):
        for link in directory.iterdir():
            with suppress(OSError):
                yield str(link.readlink())


def _inodes(number: int, transport: str) -> Iterator[str]:
    for name in (transport, f"{transport}6"):
        try:
            rows = Path("/proc/net", name).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            _, local, _, state, *_, inode = row.split()[:10]
            if state == _LISTENING[transport] and int(local.rpartition(":")[2], 16) == number:
                yield inode


def _process_of(server: str) -> int | None:
    host, _, number = server.rpartition(":")
    try:
        is_here = host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        is_here = False
    return holder(int(number), "tcp") if is_here and number.isdecimal() else None


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return "a program"
