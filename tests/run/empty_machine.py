"""Try `make up` and `make test` on a machine that has nothing else: a root directory with a few packages of Debian.

    sudo python3 -m tests.run.empty_machine up              until the server listens
    sudo python3 -m tests.run.empty_machine up test         and every test of `make test` afterwards
    sudo python3 -m tests.run.empty_machine up --keep DIRECTORY

The root directory has what the README names: Debian 12, a C compiler, GNU make, Python, and git with a clone of the
last commit of this checkout. The Rust toolchain of this machine is mounted there, read-only; no cache is. For each
command it prints the seconds, the space that was used, and the longest time without output. It needs root and
debootstrap.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("ca-certificates", "gcc", "git", "libc6-dev", "make", "python3", "python3-venv")
SUITE: Final = "bookworm"
MIRROR: Final = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
UP: Final = b"Press Ctrl-C to stop"
"""Last line that the server prints when it listens."""
_PASSED_ON: Final = ("proxy", "CA_BUNDLE", "_CERT", "SSL_", "CA_CERTS")
"""Parts of the names of variables that let programs reach registries from here."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One command on the empty machine."""

    command: str
    status: int
    seconds: float
    silence_seconds: float
    """Longest time without output."""
    bytes: int
    """Space that the root directory has grown by."""


def main(arguments: Sequence[str]) -> int:
    """Make the machine, run the commands, and print what was measured."""
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.run.empty_machine",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("commands", nargs="+", choices=["up", "test"])
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="make the root directory there, and keep it")
    given = parser.parse_args(arguments)
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        print("this needs root, and Debian's package debootstrap", file=sys.stderr)
        return 2
    with ExitStack() as stack:
        root = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="empty-machine-")))
        root = (root / "root").absolute()
        make_root(root)
        stack.enter_context(mounted(root))
        measured = []
        for command in given.commands:
            measured.append(run(root, command))
            if measured[-1].status:
                break
        print(f"\n{'command':<12} {'status':>6} {'seconds':>8} {'silent':>7} {'MB':>7}")
        for one in measured:
            columns = f"{one.seconds:>8.0f} {one.silence_seconds:>7.1f} {one.bytes / 1e6:>7.0f}"
            print(f"make {one.command:<7} {one.status:>6} {columns}")
    return max(one.status for one in measured)


def make_root(root: Path) -> None:
    """Install the packages and clone the checkout."""
    if not root.exists():
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root), MIRROR]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for name in ("etc/resolv.conf", "etc/hosts"):
        shutil.copy(Path("/", name), root / name)
    # Authorities that were added to this machine, by which it reaches registries.
    added = "usr/local/share/ca-certificates"
    shutil.copytree(Path("/", added), root / added, dirs_exist_ok=True)
    subprocess.run(["chroot", str(root), "update-ca-certificates"], check=True, stdout=subprocess.DEVNULL)
    # Servers whose packages the tests install are not started: the network is that of this machine.
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
    policy.chmod(0o755)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(root / "headrace")], check=True)


@contextmanager
def mounted(root: Path) -> Iterator[None]:
    """Mount what every machine has, and the Rust toolchain."""
    toolchain = subprocess.run(
        ["rustc", "--print", "sysroot"], cwd=ROOT / "core", capture_output=True, text=True, check=True
    ).stdout.strip()
    with ExitStack() as stack:
        for source, target, options in (
            # Java looks for the mount that a file is on.
            (root, ".", "bind"),
            ("/proc", "proc", "bind"),
            ("/sys", "sys", "rbind"),
            ("/dev", "dev", "rbind"),
            (toolchain, "opt/rust", "bind,ro"),
        ):
            (root / target).mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "-o", options, str(source), str(root / target)], check=True)
            subprocess.run(["mount", "--make-rslave", str(root / target)], check=False)
            stack.callback(subprocess.run, ["umount", "--recursive", "--lazy", str(root / target)], check=False)
        yield


def run(root: Path, command: str) -> Measured:
    """Run `make COMMAND` and pass its output on; `make up` is interrupted when the server listens."""
    before = used(root)
    environment = {name: value for name, value in os.environ.items() if any(part in name for part in _PASSED_ON)}
    environment |= {"PATH": "/opt/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    began = last = time.monotonic()
    silence = 0.0
    process = subprocess.Popen(
        ["chroot", str(root), "make", "--directory", "/headrace", command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    seconds = 0.0
    for line in process.stdout:
        now = time.monotonic()
        silence, last = max(silence, now - last), now
        sys.stdout.buffer.write(f"{now - began:6.1f}  ".encode() + line)
        sys.stdout.flush()
        if UP in line:
            seconds = now - began
            os.killpg(process.pid, signal.SIGINT)
    status = process.wait()
    if command == "up":
        # Make ends with the signal that has ended the server.
        status = 0 if seconds else status or 1
    return Measured(command, status, seconds or time.monotonic() - began, silence, used(root) - before)


def used(root: Path) -> int:
    """Return the bytes on the disk of the root directory itself."""
    printed = subprocess.run(["du", "-sx", "-B1", str(root)], capture_output=True, text=True, check=False).stdout
    return int(printed.split()[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
