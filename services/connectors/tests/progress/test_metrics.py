"""Metrics and the list of destinations, under a routing that runs wild."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from headrace_connectors.admission.table import AdmissionTable
from headrace_connectors.contract import Lag, Record
from headrace_connectors.pipeline_file.models import Admission, CircuitBreaker
from headrace_connectors.runtime.metrics import ConnectorCollector
from headrace_connectors.runtime.source_connector import SourceConnector


async def test_a_hundred_thousand_destinations_take_no_series_and_no_memory(parse, tmp_path):
    """CON-9: no label names a destination, and only admitted ones are remembered."""
    pipeline = parse('[sources.a]\nplugin = "random"\n[sources.a.routing]\ndefault_stream = "s"\ndefault_topic = "t"\n')
    source = SourceConnector(pipeline.sources["a"], None, None)

    async def create(name):
        return 1

    source._table = AdmissionTable(Admission(), CircuitBreaker(), create, lambda: 0.0)
    metrics = CollectorRegistry()
    metrics.register(ConnectorCollector(lambda: [source]))
    before = generate_latest(metrics).count(b"\n")
    for start in range(0, 100_000, 1000):
        names = {("s", f"t{number}"): [Record(b"")] for number in range(start, start + 1000)}
        _, refused = await source.table.admit(names)
        source.counters.refused["cap"] += sum(one.records_count for one in refused)
    text = generate_latest(metrics).decode()
    assert text.count("\n") == before
    assert 'iggy_connector_destinations_active{connector_key="a"} 256.0' in text
    assert 'headrace_connector_destinations_rejected_total{connector_key="a",reason="cap"} 99744.0' in text
    assert len(source.table.documents()) == 256


def test_the_lag_is_a_metric_with_its_unit(parse):
    """CON-84: a connector whose lag is not known has none."""
    text = "".join(f'[sources.{key}]\nplugin = "random"\nstream = "s"\ntopic = "t"\n' for key in ("a", "b"))
    sources = [SourceConnector(one, None, None) for one in parse(text).sources.values()]
    metrics = CollectorRegistry()
    metrics.register(ConnectorCollector(lambda: sources, {"a": Lag(7, "bytes")}.get))
    found = generate_latest(metrics).decode()
    assert 'headrace_connector_lag{connector_key="a",unit="bytes"} 7.0' in found
    assert 'headrace_connector_lag{connector_key="b"' not in found
