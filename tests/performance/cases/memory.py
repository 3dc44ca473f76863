"""Memory of the embedded server with default settings."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import replace

from tests.performance.loads.load import Load, run_native
from tests.performance.options import GB, MB
from tests.performance.results.metrics import Metric, at_most
from tests.performance.results.section import Section
from tests.performance.rounds import alternate
from tests.performance.workbench import Workbench, topic

AT_REST = "at rest, after the start"
LOADED = "at rest, after 1 GB through 4 producers and 4 consumers"
REST_SECONDS = 2.0


def run(bench: Workbench) -> Section:
    """Measure the case."""
    produce = Load(
        mode="produce",
        message_size_bytes=1000,
        messages_per_batch=1000,
        amount={"bytes": 1 * GB},
        warm_up_seconds=0.0,
    )

    def turn() -> Mapping[str, float]:
        with bench.server("memory") as server:
            time.sleep(REST_SECONDS)
            at_rest = server.memory_bytes()
            with topic(server, 4) as target:
                run_native(produce, target)
                run_native(replace(produce, mode="consume"), target)
                time.sleep(REST_SECONDS)
                loaded = server.memory_bytes()
        shutil.rmtree(server.data)
        return {AT_REST: at_rest / MB, LOADED: loaded / MB}

    samples = alternate({"server": turn}, bench.scale.rounds, bench.started)
    return Section(
        name="memory",
        title="resident memory of the embedded server, default settings",
        metrics=[
            Metric(AT_REST, tuple(samples[AT_REST]), "MB", at_most(150.0)),
            Metric(LOADED, tuple(samples[LOADED]), "MB"),
        ],
    )
