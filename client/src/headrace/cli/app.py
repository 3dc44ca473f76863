"""The program `headrace`: start, and exit statuses.

Nothing is imported before it is needed: the parser of the command line takes longer than the answer of a server.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; exit with the status that docs/command-line.md describes."""
    from headrace.cli.streams import prepare  # noqa: PLC0415

    prepare()
    if sys.argv[1:] == ["--version"]:
        # Of the native module, which a release has at the same version: reading it from the distribution takes longer.
        from headrace_core import __version__  # noqa: PLC0415

        sys.stdout.write(f"headrace {__version__}\n")
        return
    from headrace.cli.running import run  # noqa: PLC0415

    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does. The interpreter would complain when it flushes at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
