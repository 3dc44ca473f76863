"""The same loads through the official Rust client: a program of its own, built when it is first needed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.performance.load import STREAM, TOPIC, Load, Target
from tests.performance.measurement import Measurement, from_report
from tests.server_process import PASSWORD, USERNAME

WORKSPACE = Path(__file__).parent / "official"
_PROGRAM = "headrace-official-bench"


class OfficialClientFailed(Exception):
    """It could not be built, or ended without a report."""


class OfficialClient:
    """The built program."""

    def __init__(self, program: Path) -> None:
        self._program = program

    @classmethod
    def build(cls) -> OfficialClient:
        """Build it, which takes several minutes for the first time.

        Raises:
            OfficialClientFailed: The compiler says why on standard error.
        """
        command = ["cargo", "build", "--release", "--locked", "--quiet"]
        if subprocess.run(command, cwd=WORKSPACE, check=False).returncode:
            raise OfficialClientFailed("the official client could not be built")
        # A target folder of the user's is taken from where the command is given, as cargo does.
        target = WORKSPACE / os.environ.get("CARGO_TARGET_DIR", "target")
        return cls(target / "release" / _PROGRAM)

    def run(self, load: Load, target: Target) -> Measurement:
        """Run a load; socket options are the client's own in any case.

        Raises:
            OfficialClientFailed: With what it wrote to standard error.
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
