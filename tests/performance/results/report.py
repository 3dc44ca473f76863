"""Terminal output: tables on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.performance.results.metrics import Figure, median
from tests.performance.results.section import Section

FIGURES_HEADINGS = ("", "reached", "lowest", "highest", "goal", "")
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
    _show_rows(console, FIGURES_HEADINGS, [_figure_row(figure) for figure in section.figures], _styles(section.figures))
    for note in section.notes:
        console.print(Text(note, style="dim"), soft_wrap=True)


def show_summary(sections: Sequence[Section], console: Console) -> None:
    """Print the number of reached goals, and the names of the others."""
    figures = [figure for section in sections for figure in section.figures if figure.goal is not None]
    reached = sum(figure.is_reached is True for figure in figures)
    console.print()
    console.print(Text(f"{reached} of {len(figures)} goals reached", style="bold"))
    missed = [figure for figure in figures if not figure.is_reached]
    if missed:
        _show_rows(console, FIGURES_HEADINGS, [_figure_row(figure) for figure in missed], _styles(missed))


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


def _figure_row(figure: Figure) -> Cells:
    unit = f" {figure.unit}" if figure.unit else ""
    goal = "" if figure.goal is None else f"{figure.goal.bound} {_number(figure.goal.value)}{unit}"
    verdict = "" if figure.is_reached is None else _WORDS[figure.is_reached]
    return (
        figure.name,
        f"{_number(figure.value)}{unit}",
        _number(figure.lowest),
        _number(figure.highest),
        goal,
        verdict,
    )


def _styles(figures: Iterable[Figure]) -> list[str]:
    return ["" if figure.is_reached is None else _STYLES[figure.is_reached] for figure in figures]


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
