"""Commands as a shell runs them, against a running server."""

import os
import subprocess
import sys
from pathlib import Path

from headrace_embedded import Server
from tests import command_line

PROGRAM = Path(sys.executable).parent / "headrace"


class Shell:
    def __init__(self, server: Server) -> None:
        self.environment = {"PATH": os.environ["PATH"], "HEADRACE_SERVER": server.address}
        self.login = {"HEADRACE_USERNAME": server.username, "HEADRACE_PASSWORD": server.password}

    def run(self, *arguments: str, stdin: bytes = b"", logged_in: bool = True) -> subprocess.CompletedProcess[bytes]:
        environment = self.environment | (self.login if logged_in else {})
        return command_line.run(*arguments, environment=environment, stdin=stdin)

    def __call__(self, *arguments: str, stdin: bytes = b"") -> str:
        result = self.run(*arguments, stdin=stdin)
        assert result.returncode == 0, result.stderr.decode()
        return result.stdout.decode()

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command in a process of its own, which may run until it is stopped."""
        return subprocess.Popen(
            [PROGRAM, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment | self.login,
        )
