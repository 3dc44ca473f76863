"""Data directories that releases have written are read by this one."""

from pathlib import Path

import pytest

from release import checkout
from tests.upgrades.releases import PROGRAMS, RECORDED, checked, unpack

ARCHIVES = sorted(RECORDED.glob("*.tar.xz"))


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.xz"))
def test_everything_that_a_release_wrote_is_there(archive: Path, tmp_path: Path) -> None:
    checked(unpack(archive, tmp_path), PROGRAMS)


def test_every_version_is_recorded() -> None:
    """A version without a recording could not be shown to be read by the next one."""
    versions = {archive.name.removesuffix(".tar.xz") for archive in ARCHIVES}
    assert checkout.version() in versions, "record it: python -m tests.upgrades.record"
