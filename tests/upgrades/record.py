"""Record a data directory of this checkout, for later releases: `python -m tests.upgrades.record`, before a release."""

import sys
import tempfile
from pathlib import Path

from release import checkout
from tests.upgrades.releases import PROGRAMS, RECORDED, pack, written


def main() -> None:
    """Write the archive of this version."""
    archive = RECORDED / f"{checkout.version()}.tar.xz"
    with tempfile.TemporaryDirectory() as directory:
        written(Path(directory, "data"), PROGRAMS)
        pack(Path(directory), archive)
    sys.stdout.write(f"{archive}: {archive.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
