"""CON-40, CON-12: every plugin that comes with Headrace keeps the rules of the contract, with real parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import psycopg
import pytest

from headrace_connectors.conformance import Case, Rule, Violation, rules_of, verify
from headrace_connectors.contract import GROUPS
from headrace_connectors.plugins.discovery import Plugins
from tests.connectors.conformance import good, payloads, planted, sinks, sources

CASES: Mapping[str, Callable[[], Case[Any]]] = {
    "random": sources.RandomCase,
    "webhook": sources.WebhookCase,
    "influxdb": sources.InfluxCase,
    "files": partial(sources.FilesCase, {}),
    "files-deleted": partial(sources.FilesCase, {"delete_after_read": True}),
    "stdout": sinks.StdoutCase,
    "http": sinks.HttpCase,
    "parquet": sinks.ParquetCase,
    "parquet-tables": sinks.ParquetTablesCase,
    "delta": sinks.DeltaCase,
    "delta-tables": sinks.DeltaTablesCase,
    "sqlite": sinks.SqliteCase,
    "json": payloads.JsonCase,
    "text": payloads.TextCase,
    "raw": payloads.RawCase,
    "arrow": payloads.ArrowCase,
    "avro": payloads.AvroCase,
    "protobuf": payloads.ProtobufCase,
    "route": payloads.RouteCase,
    "add": payloads.transform("add_fields", {"fields": {"order.at": [1]}, "copies": {"who": "user"}}),
    "delete": payloads.transform("delete_fields", {"fields": ["user.mail", "order"]}),
    "filter": payloads.transform("filter_fields", {"fields": ["user.name", "order.items"]}),
    "mask": payloads.transform("mask_fields", {"redact": ["user.mail"], "keep_last": {"card": 2}}),
    "python": payloads.transform("python", {"function": "tests.connectors.conformance.payloads:shouted"}),
    "rename": payloads.transform("rename_fields", {"fields": {"user.mail": "mail", "order.id": "number"}}),
    "split": payloads.transform("split", {"field": "items"}),
}
# Their settings are the same, and are checked once.
VARIANTS = ("parquet-tables", "delta-tables", "polling-delete", "polling-mark", "cdc-pgoutput", "cdc-test-decoding")
WITH_POSTGRESQL: Mapping[str, Callable[..., Case[Any]]] = {
    "polling-cursor": partial(sources.PostgresCase, way={"cursor_column": "id"}),
    "polling-delete": partial(sources.PostgresCase, way={"delete_after_read": True}),
    "polling-mark": partial(sources.PostgresCase, way={"processed_column": "is_read"}),
    "cdc-snapshot": partial(sources.CdcCase, way={"snapshot": "initial"}),
    "cdc-pgoutput": partial(sources.CdcCase, way={"snapshot": "never"}),
    "cdc-test-decoding": partial(sources.CdcCase, way={"snapshot": "never", "decoder": "test_decoding"}),
    "postgres-sink": sinks.PostgresSinkCase,
}


GENERAL = {rule.name for rule in rules_of("codecs")} & {rule.name for rule in rules_of("sources")}


def kind_of(make: Callable[..., Case[Any]]) -> str:
    """Kind of the plugin that a case is for."""
    case: Any = make.func if isinstance(make, partial) else make
    return str(case.kind)


def pairs(cases: Mapping[str, Callable[..., Case[Any]]]) -> list[Any]:
    """Every case with every rule of its kind."""
    return [
        pytest.param(make, rule, id=f"{key}-{rule}")
        for key, make in cases.items()
        for rule in rules_of(kind_of(make))
        if key not in VARIANTS or rule.name not in GENERAL
    ]


@pytest.mark.long(but=8)
@pytest.mark.parametrize(("make", "rule"), pairs(CASES))
def test_a_plugin_keeps_the_rules(make: Callable[[], Case[Any]], rule: Rule[Any]) -> None:
    verify(rule, make)


@pytest.mark.long(but=8)
@pytest.mark.parametrize(("make", "rule"), pairs(WITH_POSTGRESQL))
def test_a_plugin_for_postgresql_keeps_the_rules(
    make: Callable[..., Case[Any]], rule: Rule[Any], database: psycopg.Connection, database_url: str
) -> None:
    verify(rule, partial(make, database, database_url))


def test_every_plugin_has_a_case() -> None:
    makes = [make.func if isinstance(make, partial) else make for make in (*CASES.values(), *WITH_POSTGRESQL.values())]
    with_case = {(case.kind, case.name) for case in cast("list[Any]", makes)}
    # These run in the files that have their servers.
    with_case |= {("sources", "opensearch"), ("sinks", "opensearch"), ("sources", "influxdb_query")}
    assert {(one.kind, one.name) for one in Plugins().installed() if one.distribution == "headrace"} == with_case


def rule_named(kind: str, name: str) -> Rule[Any]:
    """The rule of this name."""
    return next(rule for rule in rules_of(kind) if rule.name == name)


@pytest.mark.parametrize("plugin", planted.PLANTED, ids=lambda plugin: plugin.__name__)
def test_a_planted_plugin_breaks_its_rule(plugin: type[Any]) -> None:
    """The docstring of a planted plugin is the name of the rule that it breaks."""
    case = planted.PLANTED[plugin]
    with pytest.raises(Violation, match=plugin.__doc__):
        verify(rule_named(case.kind, plugin.__doc__ or ""), partial(case, plugin))


def test_a_plugin_of_another_version_breaks_its_rule() -> None:
    with pytest.raises(Violation, match="written for version 2 of the contract"):
        verify(rule_named("sources", "version_is_declared"), good.OtherVersionCase)


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        pytest.param(case, rule, id=f"{case.kind}-{rule}")
        for case in good.GOOD
        for rule in rules_of(case.kind)
        if rule.name != "version_is_declared"
    ],
)
def test_a_good_plugin_breaks_no_rule(case: type[Case[Any]], rule: Rule[Any]) -> None:
    assert verify(rule, case).result == "passed"


def test_every_rule_is_broken_by_a_planted_plugin() -> None:
    broken = {(case.kind, plugin.__doc__) for plugin, case in planted.PLANTED.items()}
    # Rules for plugins of every kind are broken by sources; that of the version by a test of its own.
    rules = {(kind if rule.name not in GENERAL else "sources", rule.name) for kind in GROUPS for rule in rules_of(kind)}
    assert rules - broken == {("sources", "version_is_declared")}
