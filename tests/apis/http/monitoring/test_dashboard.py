"""The Grafana dashboard uses only metrics that a server or its connectors export (USE-6)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.apis.http.api import Api, batch
from tests.compatibility.protocol.raw import RawConnection
from tests.connectors.process import Connectors, until
from tests.sdk.conftest import url_of
from tests.server_process import ServerProcess

PROGRAM = Path(__file__).parents[4] / "compose" / "dashboards" / "build.py"
COLUMNS = 24
METRIC = re.compile(r"\b(?:headrace|process|http)_\w+")


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    # Without packages, as those use it who only have the repository.
    printed = subprocess.run([sys.executable, "-I", "-S", PROGRAM], capture_output=True, check=True).stdout
    found: dict[str, Any] = json.loads(printed)
    return found


@pytest.fixture(scope="module")
def of_connectors(shared_server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Metrics of a process with a source and a sink."""
    connectors = Connectors(tmp_path_factory.mktemp("connectors"), url_of(shared_server.address))
    place = 'stream = "of-connectors"\ntopic = "made"\n'
    connectors.run(f'[sources.a]\nplugin = "random"\n{place}[sinks.b]\nplugin = "stdout"\n{place}')
    try:
        until(
            lambda: 'headrace_connector_records_written_total{connector_key="b"} 0.0' not in connectors.get("/metrics")
        )
        yield connectors.get("/metrics")
    finally:
        connectors.kill()


def queries(dashboard: dict[str, Any]) -> list[str]:
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    return shown + [variable["query"]["query"] for variable in dashboard["templating"]["list"][1:]]


async def test_every_metric_is_reported(
    root: Api, shared_server: ServerProcess, dashboard: dict[str, Any], of_connectors: str
) -> None:
    topic = await root.create_topic("shown")
    await root.ok("POST", f"{topic}/consumer-groups", {"name": "g"})
    await root.ok("POST", f"{topic}/messages", batch(b"m", partition=0))
    await root.ok("GET", f"{topic}/messages?kind=first")
    with RawConnection.as_root(shared_server.address):
        text = (await root("GET", "/metrics")).body.decode()
    families = [*text_string_to_metric_families(text), *text_string_to_metric_families(of_connectors)]
    reported = {sample.name for family in families for sample in family.samples}
    # The exporter announces counters before their first sample.
    reported |= {f"{family.name}_total" for family in families if family.type == "counter"}
    used = {name for query in queries(dashboard) for name in METRIC.findall(query)}
    assert len(used) > 30
    assert used - reported == set()


async def test_every_label_is_there(root: Api, anonymous: Api, dashboard: dict[str, Any], of_connectors: str) -> None:
    """Every label in a grouping or a legend is a label of the metric."""
    topic = await root.create_topic("labelled")
    await root.ok("POST", f"{topic}/consumer-groups", {"name": "g"})
    await anonymous("GET", "/streams")
    text = (await root("GET", "/metrics")).body.decode()
    labels: dict[str, set[str]] = {}
    for family in (*text_string_to_metric_families(text), *text_string_to_metric_families(of_connectors)):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    # Prometheus adds these labels to every scraped sample.
    always = {"instance", "job"}
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            grouped = {name for group in re.findall(r"by \(([^)]*)\)", expression) for name in group.split(", ")}
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= grouped, expression
            for name in METRIC.findall(expression):
                if name in labels:
                    assert grouped <= labels[name] | always, expression


def test_it_is_one_that_grafana_imports(dashboard: dict[str, Any]) -> None:
    assert {"uid", "title", "schemaVersion", "panels", "templating", "time"} <= set(dashboard)
    assert dashboard["schemaVersion"] >= 36
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["title"]
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= COLUMNS
        cells = {(place["x"] + column, place["y"] + row) for column in range(place["w"]) for row in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["type"] in {"timeseries", "stat"}
        assert panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
    for query in queries(dashboard):
        for opening, closing in ("()", "{}", "[]"):
            assert query.count(opening) == query.count(closing), query
