"""Loads through the official Rust client, a separate program that is built on first use."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.performance.loads.load import STREAM, TOPIC, Load, Target
from tests.performance.loads.measurement import Measurement, from_report
from tests.server_process import PASSWORD, USERNAME

WORKSPACE = Path(__file__).parents[1] / "official"
_PROGRAM = "headrace-official-bench"


class OfficialClientFailed(Exception):
    """The program could not be built, or ended without a report."""


class OfficialClient:
    """The built program."""

    def __init__(self, program: Path) -> None:
        self._program = program

    @classmethod
    def build(cls) -> OfficialClient:
        """Build the program, which takes several minutes the first time.

        Raises:
            OfficialClientFailed: The build failed; the compiler prints the reason to standard error.
        """
        command = ["cargo", "build", "--release", "--locked", "--quiet"]
        if subprocess.run(command, cwd=WORKSPACE, check=False).returncode:
            raise OfficialClientFailed("the official client could not be built")
        # Resolve the user's target directory relative to the working directory, as cargo does.
        target = WORKSPACE / os.environ.get("CARGO_TARGET_DIR", "target")
        return cls(target / "release" / _PROGRAM)

    def run(self, load: Load, target: Target) -> Measurement:
        """Run a load; socket options are always the client's defaults.

        Raises:
            OfficialClientFailed: The run failed; contains the standard error output.
        """
        config = {
            "address": target.address,
            "username": USERNAME,
            "password": PASSWORD,
            "mode": load.mode,
            "connections": load.connections,
            "stream": STREAM,
            "topic": TOPIC,
            "message_size_bytes": load.message_size_bytes,
            "messages_per_batch": load.messages_per_batch,
            "amount": load.amount,
            "warm_up_seconds": load.warm_up_seconds,
            "server_pid": target.pid,
        }
        finished = subprocess.run(
            [self._program], input=json.dumps(config), capture_output=True, text=True, check=False
        )
        if finished.returncode:
            raise OfficialClientFailed(finished.stderr.strip())
        report = json.loads(finished.stdout)
        return from_report(report["group"], report["server_cpu"], report["client_cpu"])
