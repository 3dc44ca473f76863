"""`python -m tests.performance`."""

import sys

from tests.performance.app import main

sys.exit(main(sys.argv[1:]))
