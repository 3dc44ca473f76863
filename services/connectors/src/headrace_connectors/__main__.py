"""The service process: ``python -m headrace_connectors PIPELINE``."""

from __future__ import annotations

import sys

from headrace_connectors.process import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
