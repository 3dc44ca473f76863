"""Metrics and the list of destinations, under a routing that runs wild."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from headrace_connectors.admission.table import AdmissionTable
from headrace_connectors.contract import Record
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
