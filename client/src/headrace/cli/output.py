"""Output of results: as tables for users, as JSON or YAML for programs."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from headrace.cli.streams import is_unicode

if TYPE_CHECKING:
    from rich.console import Console

U64_MAX: Final = 2**64 - 1

_NUMBER = re.compile(r"[0-9,.]*")
# Characters of Unicode that reorder what follows them, or begin a line: with them a text can look like another one.
_REORDERING = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
# Control characters that a terminal would interpret; tabs are allowed.
_CONTROL = re.compile(rf"[\x00-\x08\x0a-\x1f\x7f-\x9f{_REORDERING}]")
# Control characters that JSON need not escape.
_CONTROL_IN_JSON = re.compile(rf"[\x7f-\x9f{_REORDERING}]")
_CONTROL_IN_YAML = re.compile(f"[{_REORDERING}]")


# Width that a column of a table keeps if its texts are as long: that of a date, and of most words.
_WORD_COLUMNS = 10
# Space between columns.
_GAP = 2

# Width of tables written to a file or a pipe.
_UNBOUNDED_COLUMNS = 10_000


class Form(StrEnum):
    """Form in which a command prints its result."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def with_form(function: Callable[..., None]) -> Callable[..., None]:
    """Add `--output` and `--json` to a command, which gets a parameter `form`."""

    @click.option(
        "--output",
        "-o",
        "form",
        type=click.Choice([form.value for form in Form]),
        default=Form.TABLE.value,
        show_default=True,
        help="Form of the result.",
    )
    @click.option("--json", "as_json", is_flag=True, help="The same as --output json.")
    @wraps(function)
    def command(*, form: str, as_json: bool, **arguments: Any) -> None:
        function(form=Form.JSON if as_json else Form(form), **arguments)

    return command


def show(form: Form, document: Any, print_as_table: Callable[[], None]) -> None:
    """Print a result.

    Args:
        form: The form that was chosen.
        document: The result as a value of JSON.
        print_as_table: Prints the result for users.
    """
    match form:
        case Form.JSON:
            print_json(document)
        case Form.YAML:
            print_yaml(document)
        case Form.TABLE:
            print_as_table()


def stdout() -> Console:
    """Return the console for results; plain text if it is not a terminal."""
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _UNBOUNDED_COLUMNS
    return console


def stderr() -> Console:
    """Return the console for progress."""
    from rich.console import Console  # noqa: PLC0415

    return Console(stderr=True, soft_wrap=True, highlight=False)


def say(text: str) -> None:
    """Print a line about the work, which is no part of the result, on standard error."""
    click.echo(text, err=True)


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    sys.stdout.write(to_json(value) + "\n")


def to_json(value: Any) -> str:
    """Return a JSON document on one line that is harmless for terminals."""
    document = _json_encode()(value)
    return _CONTROL_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


@cache
def _json_encode() -> Callable[[Any], str]:
    """Return the encoder, which would otherwise be made anew for each message."""
    import json  # noqa: PLC0415 - slow to import, and tables do without

    return json.JSONEncoder(ensure_ascii=False).encode


def print_yaml(value: Any) -> None:
    """Print one YAML document on standard output."""
    import yaml  # noqa: PLC0415

    document = yaml.safe_dump(value, allow_unicode=is_unicode(), sort_keys=False)
    if _CONTROL_IN_YAML.search(document):
        # The library escapes all characters that are not ASCII, or none of them.
        document = yaml.safe_dump(value, sort_keys=False)
    sys.stdout.write(document)


def harmless(text: str) -> str:
    """Return a text with control characters escaped, so that a terminal does not interpret them."""
    return _CONTROL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; columns of numbers are right-aligned.

    Nothing is cut off on a narrow terminal: titles and texts continue on further lines, and if even their words are too
    wide, each row is printed as a list.
    """
    shown = [[harmless(f"{cell:,}" if isinstance(cell, int) else str(cell)) for cell in row] for row in rows]
    texts = [_Column(title, [row[index] for row in shown]) for index, title in enumerate(columns)]
    console = stdout()
    if sum(column.width_min for column in texts) + _GAP * (len(texts) - 1) > console.width:
        _print_lists(texts, len(shown))
        return

    from rich.markup import escape  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in texts:
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        table.add_column(column.title, justify=justify, overflow="fold", min_width=column.width_min)
    for index in range(len(shown)):
        table.add_row(*(escape(column.cells[index]) for column in texts))
    console.print(table)


class _Column:
    def __init__(self, title: str, cells: list[str]) -> None:
        self.title = title
        self.cells = cells
        self.is_number = all(_NUMBER.fullmatch(cell) for cell in cells)
        longest = max(map(len, cells), default=0)
        # Numbers and words of the title stay whole.
        self.width_min = max(longest if self.is_number else min(longest, _WORD_COLUMNS), *map(len, title.split()), 0)


def _print_lists(columns: Sequence[_Column], rows_count: int) -> None:
    width = max(len(column.title) for column in columns) + _GAP
    for index in range(rows_count):
        if index > 0:
            click.echo()
        for column in columns:
            click.echo(f"{column.title:<{width}}{paragraph(column.cells[index], indent=width)}")


def coloured(text: str, colour: str, *, bold: bool = False) -> str:
    """Return a text in a colour, unless the user wants none (https://no-color.org)."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour, bold=bold or None)


def paragraph(text: str, *, indent: int) -> str:
    """Return a text with all lines but the first indented, as wide as the terminal; one line if there is none.

    Control characters are escaped.
    """
    text = harmless(text)
    if not sys.stdout.isatty():
        return text
    width = max(shutil.get_terminal_size().columns, indent + _WORD_COLUMNS)
    return textwrap.fill(
        text, width, initial_indent=" " * indent, subsequent_indent=" " * indent, break_on_hyphens=False
    )[indent:]


def or_dash(value: object) -> object:
    """Return a value for a table; a dash if there is none."""
    return "-" if value is None else value


def size(size_bytes: float) -> str:
    """Return a size with three digits and a decimal unit."""
    if size_bytes == U64_MAX:
        return "unlimited"
    for unit in ("B", "KB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:,.1f} TB"


def local_date(text: str | None) -> str:
    """Format a time in RFC 3339 in the local time zone; a dash for None."""
    return "-" if text is None else date(round(datetime.datetime.fromisoformat(text).timestamp() * 1_000_000))


def date(micros: int) -> str:
    """Return microseconds since the epoch as local time to the second, for tables."""
    return datetime.datetime.fromtimestamp(micros / 1_000_000).isoformat(sep=" ", timespec="seconds")  # noqa: DTZ006


def timestamp(micros: int) -> str:
    """Return microseconds since the epoch in RFC 3339, for programs."""
    # Without binary fractions, which would change the last digit.
    seconds, rest = divmod(micros, 1_000_000)
    whole = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return whole.replace(microsecond=rest, tzinfo=None).isoformat(timespec="microseconds") + "Z"


def optional_timestamp(micros: int | None) -> str | None:
    """Return such a time, if there is one."""
    return None if micros is None else timestamp(micros)


def moment(micros: int) -> str:
    """Return microseconds since the epoch as local time."""
    return datetime.datetime.fromtimestamp(micros / 1_000_000).astimezone().isoformat(sep=" ", timespec="milliseconds")
