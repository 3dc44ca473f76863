"""Settings of the source `files`."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from headrace_connectors.contract import Settings
from headrace_connectors.plugins.extras import needed
from headrace_settings import Between, Duration, Size

ColumnKind = Literal["text", "int", "float", "bool"]
_WIDE: Final = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")


def _encoding(text: str) -> str:
    try:
        name = codecs.lookup(text).name
        newline = "\n".encode(name)
    except (LookupError, UnicodeError):
        raise ValueError(f"{text!r} is not an encoding: use utf-8, latin-1, cp1252, utf-16-le or similar") from None
    if newline != b"\n" and name not in _WIDE:
        raise ValueError(f"{text!r} does not say the order of bytes: use {name.replace('_', '-')}-le or -be")
    return text


class CsvSettings(Settings):
    """`settings.csv`: form of CSV."""

    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Character between two values."""
    quote: Annotated[str, Field(min_length=1, max_length=1)] = '"'
    """Character around values that contain delimiters or line breaks; twice within them for itself."""
    columns: tuple[str, ...] = ()
    """Names of the columns; empty: the first row of each file has them."""
    types: Mapping[str, ColumnKind] = Field(default_factory=dict)
    """Type by column: `text`, `int`, `float` or `bool`. Others are text. An empty value is null, unless it is text."""

    @model_validator(mode="after")
    def _names_columns_once(self) -> Self:
        repeated = next((name for name in self.columns if self.columns.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"columns has {repeated} twice: rename one of them")
        unknown = next((name for name in self.types if self.columns and name not in self.columns), None)
        if unknown is not None:
            raise ValueError(f"types names {unknown}, which is not in columns")
        if self.delimiter == self.quote:
            raise ValueError("delimiter and quote are the same character")
        return self


class FilesSettings(Settings):
    """`settings` of the source `files`."""

    paths: Annotated[tuple[str, ...], Field(min_length=1)]
    """Files, with wildcards as of a shell: `/var/log/shop/*.log`, `/data/**/*.csv`. Relative ones are below the working
    directory of the process.
    """
    exclude: tuple[str, ...] = ()
    """Files that are not read though `paths` names them, with wildcards: `*.gz`."""
    format: Literal["lines", "json_lines", "csv", "parquet"] = "lines"
    """Form of the files: a record for each line of text, each line of JSON, each row of CSV, or each row of Parquet."""
    encoding: Annotated[str, AfterValidator(_encoding)] = "utf-8"
    """Encoding of lines and CSV."""
    csv: CsvSettings = CsvSettings()
    start: Literal["first", "end"] = "first"
    """Place to begin at in files that are there at the very first start. Later ones are read as a whole."""
    delete_after_read: bool = False
    """Delete files when they are stored and have not grown for `complete_after`."""
    complete_after: Annotated[Duration, Between(Duration.parse("10 ms"), Duration.parse("1 day"))] = Duration.parse(
        "5 s"
    )
    """Time without growth after which a file counts as complete: its last line needs no line break, it is deleted with
    `delete_after_read`, and given up if it was renamed to a name that `paths` does not have. Longer than pauses of
    programs that write lines in pieces.
    """
    skip_copies: bool = True
    """Take a new file that begins with all that was read of another one for its copy, and read on after that: rotation
    by copying and truncating. It needs 1 KiB of data.
    """
    max_line: Annotated[Size, Between(Size(1), Size.parse("64 MiB"))] = Size.parse("1 MiB")
    """Maximum size of a line, or of a row of CSV; longer ones are invalid."""
    max_files: Annotated[int, Between(1, 100_000)] = 1000
    """Maximum number of files that are followed at a time."""
    batch_size: Annotated[int, Between(1, 100_000)] = 1000
    """Maximum number of records of a batch."""
    poll_interval: Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 day"))] = Duration.parse(
        "250 ms"
    )
    """Pause after a poll without records."""

    @model_validator(mode="after")
    def _format_has_what_is_set(self) -> Self:
        if self.format != "csv" and self.csv != CsvSettings():
            raise ValueError(f'csv has no effect with format = "{self.format}": remove it')
        if self.format == "parquet":
            needed('format = "parquet"', "pyarrow", "tables")
        if self.format == "parquet" and self.encoding != "utf-8":
            raise ValueError('encoding has no effect with format = "parquet": remove it')
        if self.format in ("csv", "parquet") and self.start == "end":
            raise ValueError(f'start = "end" has no meaning with format = "{self.format}": remove it')
        return self
