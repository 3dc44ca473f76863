"""The list of installed plugins."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from headrace_connectors.plugins.discovery import Plugins


@pytest.mark.parametrize(("version", "is_listed"), [(1, True), (2, True), (None, False)])
def test_plugins_of_other_contracts_are_listed(version, is_listed):
    group = f"headrace_connectors.v{version}.sources" if version else "console_scripts"
    found = Plugins([EntryPoint("mine", "my_package:Mine", group)]).installed()
    assert [(one.kind, one.name, one.contract) for one in found] == (
        [("sources", "mine", version)] if is_listed else []
    )
