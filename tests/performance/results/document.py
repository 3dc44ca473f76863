"""Complete results as one JSON document: every round of every candidate, and the machine."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import headrace_core
from tests.performance.options import Options
from tests.performance.results.metrics import Metric, median
from tests.performance.results.section import Section


def machine() -> dict[str, Any]:
    """Describe the machine, on which the results depend."""
    return {
        "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "version": headrace_core.__version__,
        "profile": headrace_core.build_profile,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "cpus_count": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_average": os.getloadavg(),
    }


def document(before: dict[str, Any], options: Options, sections: Sequence[Section]) -> dict[str, Any]:
    """Build the complete document."""
    return {
        "machine": before,
        "load_average_afterwards": os.getloadavg(),
        "scale": asdict(options.scale),
        "cases": [_case(section) for section in sections],
    }


def write(path: Path, contents: dict[str, Any]) -> None:
    """Write the document."""
    path.write_text(json.dumps(contents, indent=2) + "\n", encoding="utf-8")


def _case(section: Section) -> dict[str, Any]:
    return {
        "name": section.name,
        "title": section.title,
        "metrics": [_metric(metric) for metric in section.metrics],
        "runs": {
            name: {
                "medians": {column.heading: median(runs, column.pick) for column in section.columns},
                "rounds": [asdict(run) for run in runs],
            }
            for name, runs in section.samples.items()
        },
        "notes": list(section.notes),
    }


def _metric(metric: Metric) -> dict[str, Any]:
    return {
        "name": metric.name,
        "unit": metric.unit,
        "median": metric.value,
        "rounds": list(metric.values),
        "goal": {"bound": metric.goal.bound, "value": metric.goal.value} if metric.goal else None,
        "is_reached": metric.is_reached,
    }
