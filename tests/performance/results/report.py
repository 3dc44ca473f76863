"""Terminal output: tables on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.performance.results.metrics import Metric, median
from tests.performance.results.section import Section

METRICS_HEADINGS = ("", "reached", "lowest", "highest", "goal", "")
_STYLES = {True: "green", False: "bold red"}
_WORDS = {True: "reached", False: "MISSED"}

Cells = tuple[str, ...]


def show(section: Section, console: Console) -> None:
    """Print one case."""
    console.print()
    console.print(Text(f"{section.name}: {section.title}", style="bold"), soft_wrap=True)
    if section.samples:
        headings = ("", *(column.heading for column in section.columns))
        _show_rows(console, headings, run_rows(section))
    _show_rows(console, METRICS_HEADINGS, [_metric_row(metric) for metric in section.metrics], _styles(section.metrics))
    for note in section.notes:
        console.print(Text(note, style="dim"), soft_wrap=True)


def show_summary(sections: Sequence[Section], console: Console) -> None:
    """Print the number of reached goals, and the names of the others."""
    metrics = [metric for section in sections for metric in section.metrics if metric.goal is not None]
    reached = sum(metric.is_reached is True for metric in metrics)
    console.print()
    console.print(Text(f"{reached} of {len(metrics)} goals reached", style="bold"))
    missed = [metric for metric in metrics if not metric.is_reached]
    if missed:
        _show_rows(console, METRICS_HEADINGS, [_metric_row(metric) for metric in missed], _styles(missed))


def run_rows(section: Section) -> list[Cells]:
    """Return a row per candidate with medians of its rounds."""
    rows = []
    for name, measurements in section.samples.items():
        medians = (median(measurements, column.pick) for column in section.columns)
        shown = (
            "" if value is None else f"{value:,.{column.digits}f}"
            for value, column in zip(medians, section.columns, strict=True)
        )
        rows.append((name, *shown))
    return rows


def _metric_row(metric: Metric) -> Cells:
    unit = f" {metric.unit}" if metric.unit else ""
    goal = "" if metric.goal is None else f"{metric.goal.bound} {_number(metric.goal.value)}{unit}"
    verdict = "" if metric.is_reached is None else _WORDS[metric.is_reached]
    return (
        metric.name,
        f"{_number(metric.value)}{unit}",
        _number(metric.lowest),
        _number(metric.highest),
        goal,
        verdict,
    )


def _styles(metrics: Iterable[Metric]) -> list[str]:
    return ["" if metric.is_reached is None else _STYLES[metric.is_reached] for metric in metrics]


def _number(value: float) -> str:
    """Format a number with about three digits, whatever its size."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) >= 10 else f"{value:.2f}"


def _show_rows(console: Console, headings: Cells, rows: list[Cells], styles: Sequence[str] = ()) -> None:
    if console.is_terminal:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for index, heading in enumerate(headings):
            table.add_column(heading, justify="left" if index == 0 else "right", overflow="fold")
        for index, row in enumerate(rows):
            table.add_row(*(Text(cell) for cell in row), style=styles[index] if styles else None)
        console.print(table)
    else:
        for line in plain_lines(headings, rows):
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def plain_lines(headings: Cells, rows: Sequence[Cells]) -> list[str]:
    """Format aligned columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]

    def line(cells: Cells) -> str:
        first, *others = (
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join((f"  {first}", *others)).rstrip()

    return [line(row) for row in (headings, *rows)]
