"""Selection of tests for changes of this repository."""

import subprocess
from pathlib import Path

import pytest

from tests.changed.modules import Files
from tests.changed.selection import ROOT, select


@pytest.fixture(scope="module")
def files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return Files(ROOT, [Path(name) for name in listed.splitlines() if (ROOT / name).is_file()])


def chosen(files, *changed):
    return select(map(Path, changed), files)


def test_a_module_of_the_gateway(files):
    selection = chosen(files, "services/gateway/src/headrace_gateway/access/passwords.py")
    assert "services/gateway/tests/access/test_logins.py" in selection.tests
    assert "tests/compatibility/access/test_users.py" in selection.tests, "by way of the server that is started"
    assert "libraries/settings/tests/test_rendering.py" not in selection.tests
    assert not selection.crates


def test_a_crate_at_the_bottom_reaches_the_native_module(files):
    selection = chosen(files, "core/crates/log/src/lib.rs")
    assert {"headrace-log", "headrace-partition", "headrace-runtime"} <= set(selection.crates)
    assert "headrace-vsr" not in selection.crates
    assert selection.is_simulated, "in data nodes"
    assert "tests/compatibility/messages/test_polling.py" in selection.tests
    assert selection.spark_tests


def test_what_nodes_consist_of_is_simulated(files):
    assert chosen(files, "core/crates/vsr/src/lib.rs").is_simulated
    assert not chosen(files, "core/crates/columns/src/lib.rs").is_simulated


def test_a_test_reaches_itself(files):
    selection = chosen(files, "tests/formats/test_tickets.py")
    assert selection.tests == ["tests/changed/test_selection.py", "tests/formats/test_tickets.py"], "it is named here"


def test_what_anything_depends_on_is_everything(files):
    assert chosen(files, "uv.lock", "tests/formats/test_tickets.py").is_everything == "uv.lock"


def test_the_navigation_of_the_site(files):
    assert "tests/site" in chosen(files, "mkdocs.yml").tests
