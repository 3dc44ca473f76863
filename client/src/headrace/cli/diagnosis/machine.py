"""Checks of this machine, for those who run a server on it."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from headrace.cli.documents import CheckDocument
from headrace.cli.output import size
from headrace_core import build_profile

_LOCKED_BYTES_MIN: Final = 8 << 20
_OPEN_FILES_MIN: Final = 4096
_KERNEL_MIN: Final = (6, 1)
_FREE_BYTES_MIN: Final = 1 << 30
_FREE_SHARE_MIN: Final = 0.1
# File systems that lose data with the machine, or whose syncs are not those of a disk.
_VOLATILE: Final = frozenset({"tmpfs", "ramfs"})
_REMOTE: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})
_LAYERED: Final = frozenset({"overlay", "aufs"})
_IO_URING_SETUP: Final = 425
"""Number of the system call, on every architecture."""
_CLOCK_IS_UNSYNCHRONISED: Final = 5


def ok(check: str, found: str) -> CheckDocument:
    """Return a check without a finding."""
    return {"check": check, "verdict": "ok", "found": found, "advice": ""}


def warning(check: str, found: str, advice: str) -> CheckDocument:
    """Return a check of something that works, but not well."""
    return {"check": check, "verdict": "warn", "found": found, "advice": advice}


def failure(check: str, found: str, advice: str) -> CheckDocument:
    """Return a check of something that does not work."""
    return {"check": check, "verdict": "fail", "found": found, "advice": advice}


def checks(data: Path) -> Iterator[CheckDocument]:
    """Check everything.

    Args:
        data: Data directory of a server, which need not exist.
    """
    yield versions()
    yield native_module(build_profile)
    yield ok("python", platform.python_version())
    yield kernel(platform.release())
    yield io_uring()
    yield limit("locked memory", resource.RLIMIT_MEMLOCK, _LOCKED_BYTES_MIN, "ulimit -l", is_bytes=True)
    yield limit("open files", resource.RLIMIT_NOFILE, _OPEN_FILES_MIN, "ulimit -n", is_bytes=False)
    directory = existing(data)
    yield file_system(directory, file_system_type(directory, Path("/proc/self/mountinfo")))
    usage = shutil.disk_usage(directory)
    yield disk_space(directory, usage.free, usage.total)
    yield clock()


def versions() -> CheckDocument:
    """Check that both distributions are of the same release."""
    try:
        found = {name: version(name) for name in ("headrace", "headrace-core")}
    except PackageNotFoundError as error:
        return warning("headrace", f"{error.name} is not installed as a package", "install headrace with pip")
    text = ", ".join(f"{name} {release}" for name, release in found.items())
    if len(set(found.values())) > 1:
        return failure("headrace", text, "install the same release of both: pip install --upgrade headrace")
    return ok("headrace", text)


def native_module(profile: str) -> CheckDocument:
    """Say in which profile the native module was built.

    Args:
        profile: `headrace_core.build_profile`.
    """
    if profile == "release":
        return ok("native module", "release build")
    return ok("native module", "development build, with assertions: slower than a release, which `make bench` measures")


def kernel(release: str) -> CheckDocument:
    """Check the release of the kernel."""
    numbers = release.split("-", maxsplit=1)[0].split(".")
    if tuple(int(number) for number in numbers[:2] if number.isdecimal()) < _KERNEL_MIN:
        return warning("kernel", release, "use Linux 6.1 or newer: the server falls back to poll, which is slower")
    return ok("kernel", release)


def io_uring() -> CheckDocument:
    """Try to open a ring."""
    parameters = ctypes.create_string_buffer(120)
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(_IO_URING_SETUP, 1, parameters)
    if descriptor >= 0:
        os.close(descriptor)
        return ok("io_uring", "available")
    error = os.strerror(ctypes.get_errno())
    switch = Path("/proc/sys/kernel/io_uring_disabled")
    if switch.exists() and switch.read_text(encoding="ascii").strip() in {"1", "2"}:
        advice = "set the sysctl kernel.io_uring_disabled to 0"
    else:
        advice = "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile"
    return warning("io_uring", error, f"{advice}; until then the server uses poll, which is slower")


def limit(check: str, kind: int, minimum: int, command: str, *, is_bytes: bool) -> CheckDocument:
    """Check a limit of the process."""
    soft, _ = resource.getrlimit(kind)
    if soft == resource.RLIM_INFINITY:
        return ok(check, "unlimited")
    text, least = (size(soft), size(minimum)) if is_bytes else (f"{soft:,}", f"{minimum:,}")
    if soft < minimum:
        return warning(check, text, f"raise it to at least {least} ({command}, or the limits of the service)")
    return ok(check, text)


def existing(path: Path) -> Path:
    """Return the directory, or the nearest one above it that exists."""
    return next(directory for directory in (path.absolute(), *path.absolute().parents) if directory.is_dir())


def file_system_type(directory: Path, mounts: Path) -> str:
    """Return the type of the file system that a directory is on.

    Args:
        directory: An existing directory.
        mounts: The kernel's table of mounts, `/proc/self/mountinfo`.
    """
    directory = directory.resolve()
    best, found = -1, "unknown"
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        mount = Path(before.split()[4].replace("\\040", " "))
        # Of several mounts at one place the last one is visible.
        if directory.is_relative_to(mount) and len(mount.parts) >= best:
            best, found = len(mount.parts), after.split()[0]
    return found


def file_system(directory: Path, kind: str) -> CheckDocument:
    """Check the file system of the data directory."""
    text = f"{kind} at {directory}"
    if kind in _VOLATILE:
        return warning("file system", text, "all data is lost when the machine stops: use a directory on a disk")
    if kind in _REMOTE:
        return warning("file system", text, "syncs go over the network, and may not be honoured: use a local disk")
    if kind in _LAYERED:
        return warning("file system", text, "data is lost with the container: use a volume")
    return ok("file system", text)


def disk_space(directory: Path, free_bytes: int, total_bytes: int) -> CheckDocument:
    """Check the free space for data."""
    text = f"{size(free_bytes)} of {size(total_bytes)} free at {directory}"
    if free_bytes < _FREE_BYTES_MIN:
        return failure("disk space", text, "free at least 1 GiB: partitions without space wait for it")
    if free_bytes < _FREE_SHARE_MIN * total_bytes:
        return warning("disk space", text, "limit topics by --max-size or --message-expiry, or free some")
    return ok("disk space", text)


def clock() -> CheckDocument:
    """Check whether the kernel's clock is synchronised."""
    # With modes 0, nothing is changed: only the state is returned.
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(256))
    if state == _CLOCK_IS_UNSYNCHRONISED:
        return warning("clock", "not synchronised", "run chrony or systemd-timesyncd: retention goes by the clock")
    if state < 0:
        return warning("clock", os.strerror(ctypes.get_errno()), "the kernel does not say whether it is synchronised")
    return ok("clock", "synchronised")
