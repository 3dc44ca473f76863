"""The list of installed plugins."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from typing import NamedTuple

import pytest

from headrace_connectors.contract import ConnectorError
from headrace_connectors.plugins.discovery import Plugins
from headrace_connectors.plugins.extras import MissingPackage, missing_package
from headrace_settings import SettingsError


@pytest.mark.parametrize(("version", "is_listed"), [(1, True), (2, True), (None, False)])
def test_plugins_of_other_contracts_are_listed(version, is_listed):
    group = f"headrace_connectors.v{version}.sources" if version else "console_scripts"
    found = Plugins([EntryPoint("mine", "my_package:Mine", group)]).installed()
    assert [(one.kind, one.name, one.contract) for one in found] == (
        [("sources", "mine", version)] if is_listed else []
    )


@pytest.fixture
def without(monkeypatch):
    """Make a package look as if it were not installed, for plugins that are imported from now on."""

    def without(package):
        own = tuple(f"headrace_connectors.{part}." for part in ("codecs", "sinks", "sources"))
        for name in list(sys.modules):
            if name.partition(".")[0] == package or name.startswith(own):
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)

    return without


@pytest.mark.parametrize(
    ("kind", "plugin", "package", "extra"),
    [
        ("codecs", "avro", "fastavro", "avro"),
        ("codecs", "arrow", "pyarrow", "tables"),
        ("sinks", "parquet", "pyarrow", "tables"),
        ("sinks", "delta", "pyarrow", "delta"),
        ("sinks", "delta", "deltalake", "delta"),
        ("sinks", "postgres", "psycopg", "postgres"),
        ("sources", "postgres", "psycopg", "postgres"),
        ("sources", "postgres_cdc", "psycopg", "postgres"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(without, kind, plugin, package, extra):
    """CON-83: the text has the command that installs it."""
    without(package)
    with pytest.raises(MissingPackage) as caught:
        Plugins().load(kind, plugin)
    assert str(caught.value) == (
        f"plugin '{plugin}' needs the package {package}, which is not installed: pip install 'headrace[{extra}]'"
    )
    assert caught.value.code == "missing_package"


SOURCE = """
[server]
url = "headrace://127.0.0.1:1"

[sources.a]
plugin = "files"
stream = "s"
topic = "t"
"""


@pytest.mark.parametrize(
    ("package", "text", "message"),
    [
        (
            "pyarrow",
            'settings = { paths = ["/x/*"], format = "parquet" }',
            r'format = "parquet" needs .* \'headrace\[tables\]\'',
        ),
        ("fastavro", 'codec = "avro"', r"plugin 'avro' needs .* pip install 'headrace\[avro\]'"),
    ],
)
def test_a_package_that_is_missing_is_a_mistake_of_the_file(without, parse, package, text, message):
    """CON-83: lint and the start name the line of the setting."""
    without(package)
    with pytest.raises(SettingsError, match=message):
        parse(SOURCE + text)


class Found(NamedTuple):
    """Metadata of a distribution."""

    name: str
    requires: list[str]


def test_plugins_of_other_distributions_have_extras_of_their_own():
    """CON-83: a module of no extra is reported as any other failure of an import."""
    found = Found("mine", ['my-driver[fast]>=1; python_version > "3" and extra == "all"', "my-driver; extra == 'sql'"])
    error = ModuleNotFoundError("no", name="my_driver.fast")
    assert "pip install 'mine[sql]'" in str(missing_package("sql_rows", error, found, {"all"}))
    assert missing_package("a", ModuleNotFoundError("no", name="json"), found) is None
    assert missing_package("a", ImportError("broken", name="my_driver"), found) is None
    broken = EntryPoint("mine", "headrace_missing:Mine", "headrace_connectors.v1.sources")
    with pytest.raises(ConnectorError, match="cannot be imported from headrace_missing:Mine: No module named"):
        Plugins([broken]).load("sources", "mine")
