"""Arguments that name the Iceberg table of an archive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pyspark_headrace.jobs.running.arguments import ArgumentError, argument
from pyspark_headrace.jobs.running.config import JobConfig
from pyspark_headrace.options.values import Unsuitable


def properties(text: str) -> tuple[tuple[str, str], ...]:
    """Parse ``name=value,name=value``."""
    found = []
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not name.strip() or not equals:
            raise Unsuitable("like name=value,name=value")
        found.append((name.strip(), value.strip()))
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class TableConfig(JobConfig):
    """Arguments of a job that reads or writes an archive. An archive without a catalog is a Delta Lake table."""

    catalog: str | None = argument(
        metavar="URI",
        secret=True,
        help="catalog of the Iceberg table that the archive is, such as sqlite:///... or https://...",
    )
    catalog_properties: tuple[tuple[str, str], ...] = argument(
        parse=properties,
        default=(),
        metavar="NAME=VALUE,...",
        secret=True,
        help="further properties of the Iceberg catalog",
    )
    table: str | None = argument(metavar="NS.TABLE", help="name of the Iceberg table")

    @property
    def is_iceberg(self) -> bool:
        """Return whether an Iceberg table is named."""
        return (self.catalog, self.table) != (None, None) or bool(self.catalog_properties)

    def checked(self) -> Self:
        """Validate combinations of arguments."""
        if self.is_iceberg:
            self.require("catalog", "table")
            if "." not in (self.table or "").strip("."):
                raise ArgumentError("--table is like NAMESPACE.TABLE")
        return super().checked()
