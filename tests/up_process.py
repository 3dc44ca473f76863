"""`headrace up` as a process: the checkout's program, or an installed one."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PROGRAM = Path(sys.executable).parent / "headrace"
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("HEADRACE_", "IGGY_")) or name == "HEADRACE_RUNTIME_DRIVER"
}
SMALL = {
    "HEADRACE_SYSTEM_SHARDING_CPU_ALLOCATION": "1",
    "HEADRACE_WEBSOCKET_ADDRESS": "127.0.0.1:0",
    "HEADRACE_QUIC_ADDRESS": "127.0.0.1:0",
    "HEADRACE_GRPC_ADDRESS": "127.0.0.1:0",
    "HEADRACE_PIPELINES_ADDRESS": "127.0.0.1:0",
    "HEADRACE_HTTP_ADDRESS": "127.0.0.1:0",
}


@contextmanager
def up(
    data: Path,
    *options: str,
    program: Path = PROGRAM,
    environment: Mapping[str, str] = ENVIRONMENT,
    **variables: str,
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a server; yield the process and its output so far.

    Args:
        data: Data directory.
        options: Options of `headrace up`.
        program: The program `headrace`.
        environment: Variables of the process, without settings.
        variables: Settings, as variables.
    """
    process = subprocess.Popen(
        [program, "up", "--data", data, "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**environment, **SMALL, **variables},
    )
    try:
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if "Ctrl-C" in line:
                break
        yield process, printed
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
