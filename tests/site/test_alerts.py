"""The rules for alerts use metrics and labels that exist."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from headrace_proto.commands import REGISTRY
from tests.site.documents import read

RULES = next(
    block for block in read(Path("docs/guides/alerts.md")).blocks if block.says("file") == "headrace-rules.yml"
)
ALWAYS = {"instance", "job", "le"}
"""Labels that Prometheus adds, and that of buckets."""


def described(site: Path) -> dict[str, set[str]]:
    """Labels of each metric of the reference."""
    page = (site / "reference/metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", page, flags=re.MULTILINE)
    found = {name: set(re.findall(r"\w+", labels)) for name, _, labels in rows}
    return found | {f"{name}_bucket": found[name] for name, kind, _ in rows if kind == "histogram"}


def test_metrics_and_labels_exist(site: Path) -> None:
    metrics = described(site)
    rules = [rule for group in yaml.safe_load(RULES.code)["groups"] for rule in group["rules"]]
    assert len(rules) > 15
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        expression = rule["expr"]
        names = re.findall(r"\b(?:headrace|process)_\w+", expression)
        assert set(names) <= set(metrics), rule["alert"]
        known = ALWAYS.union(*(metrics[name] for name in names))
        grouped = {label for found in re.findall(r"by \(([^)]*)\)", expression) for label in found.split(", ")}
        selected = {label for found in re.findall(r"\{([^}]*)\}", expression) for label in re.findall(r"(\w+)=", found)}
        shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert grouped | selected | shown <= known, rule["alert"]
        if grouped:
            assert shown <= grouped, f"{rule['alert']}: a label that the expression removes"
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}


def test_selected_values_exist() -> None:
    selected = set(re.findall(r'command="(\w+)"', RULES.code))
    assert selected
    assert selected <= {info.name for info in REGISTRY.values()}
