"""The command line in this process, without the start of an interpreter, which takes longer than the rest."""

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from unittest import mock

from headrace.cli.app import main


def run(*arguments: str, environment: Mapping[str, str], stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command with exactly these variables, and answer as ``subprocess.run`` does."""
    # Contexts of the user who runs the tests are none of theirs.
    environment = {"XDG_CONFIG_HOME": "/nowhere"} | dict(environment)
    given, out, err = (io.TextIOWrapper(io.BytesIO(data), "utf-8", write_through=True) for data in (stdin, b"", b""))
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, environment, clear=True))
        stack.enter_context(mock.patch.object(sys, "argv", ["headrace", *map(str, arguments)]))
        stack.enter_context(mock.patch.object(sys, "stdin", given))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        try:
            main()
            status: object = 0
        except SystemExit as exit_:
            status = exit_.code
    assert status is None or isinstance(status, int)
    return subprocess.CompletedProcess(arguments, status or 0, _written(out), _written(err))


def _written(stream: io.TextIOWrapper) -> bytes:
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue()
