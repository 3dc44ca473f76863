"""Run the command line."""

import sys

from headrace_metadata.cli import run

sys.exit(run(sys.argv[1:]))
