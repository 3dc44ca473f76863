import io
import json
from pathlib import Path

from rich.console import Console

from tests.performance import options
from tests.performance.loads.measurement import Measurement
from tests.performance.results import document, report
from tests.performance.results.metrics import Metric, at_least, at_most
from tests.performance.results.section import MB_PER_SECOND, P50, Section

RUN = Measurement(requests=10, payload_bytes=2_000_000_000, wall_seconds=1.0, cpu_seconds=1.0, p50_micros=1234.5)
RAW = Measurement(requests=10, payload_bytes=1_000_000_000, wall_seconds=1.0, cpu_seconds=1.0)
SECTION = Section(
    name="large",
    title="a title [with brackets]",
    columns=(MB_PER_SECOND, P50),
    samples={"produce: server": [RUN, RUN, RAW], "raw": [RAW]},
    metrics=(
        Metric("share of null", (0.8, 0.7, 0.9), "", at_least(0.75)),
        Metric("CPU", (0.5,), "s/GB", at_most(0.45)),
        Metric("of interest", (1234.0,), "MB"),
    ),
    notes=("a note",),
)


def shown(terminal: bool) -> str:
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=100, color_system=None)
    report.show(SECTION, console)
    report.show_summary([SECTION], console)
    return output.getvalue()


def test_plain_lines_stand_in_columns() -> None:
    assert shown(terminal=False).splitlines() == [
        "",
        "large: a title [with brackets]",
        "                    MB/s  p50 ms",
        "  produce: server  2,000   1.234",
        "  raw              1,000",
        "                   reached  lowest  highest          goal",
        "  share of null       0.80    0.70     0.90       >= 0.75  reached",
        "  CPU            0.50 s/GB    0.50     0.50  <= 0.45 s/GB   MISSED",
        "  of interest     1,234 MB   1,234    1,234",
        "a note",
        "",
        "1 of 2 goals reached",
        "         reached  lowest  highest          goal",
        "  CPU  0.50 s/GB    0.50     0.50  <= 0.45 s/GB  MISSED",
    ]


def test_a_terminal_is_shown_the_same() -> None:
    text = shown(terminal=True)
    for cell in ("produce: server", "2,000", "share of null", "0.80", ">= 0.75", "MISSED", "1 of 2 goals reached"):
        assert cell in text


def test_the_document_holds_every_round(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    chosen = options.parse((), tmp_path)
    document.write(path, document.document(document.machine(), chosen, [SECTION]))
    contents = json.loads(path.read_text(encoding="utf-8"))
    case = contents["cases"][0]
    assert case["metrics"][0]["rounds"] == [0.8, 0.7, 0.9]
    assert case["metrics"][0]["is_reached"] is True
    assert case["metrics"][0]["goal"] == {"bound": ">=", "value": 0.75}
    assert case["metrics"][2]["goal"] is None
    runs = case["runs"]["produce: server"]
    assert runs["medians"]["MB/s"] == 2000.0
    assert [run["payload_bytes"] for run in runs["rounds"]] == [2_000_000_000, 2_000_000_000, 1_000_000_000]
    assert contents["machine"]["cpus_count"] > 0
