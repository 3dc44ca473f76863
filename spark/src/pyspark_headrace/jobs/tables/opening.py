"""Opening of the table that the arguments of a job name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyspark_headrace.jobs.running.arguments import ArgumentError
from pyspark_headrace.jobs.tables.config import TableConfig
from pyspark_headrace.jobs.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa


def open_table(
    config: TableConfig, uri: str, rows: pa.Schema | None = None, *, is_iceberg: bool, create: bool = False
) -> Table:
    """Open a table.

    Args:
        config: Arguments with the catalog of an Iceberg table.
        uri: Location of the table.
        rows: Schema of the messages in files that are to be added; None for a table that is read.
        is_iceberg: Open an Iceberg table, and not one of Delta Lake.
        create: Create a missing table.

    Raises:
        ArgumentError: The location cannot be that of an Iceberg table.
        ArchiveError: An earlier release has written an archive there.
        StoreError: The table cannot be opened.
    """
    # Each table format needs its own library, so only the selected one is imported.
    if not is_iceberg:
        from pyspark_headrace.jobs.tables.delta import DeltaLakeTable  # noqa: PLC0415

        return DeltaLakeTable(uri, rows, create=create)
    if not urlsplit(uri).scheme and not Path(uri).is_absolute():
        raise ArgumentError(f"{uri}: the location of an Iceberg table is a URI, or an absolute path")
    from pyspark_headrace.jobs.tables.iceberg import IcebergTable, catalog_of  # noqa: PLC0415

    catalog = catalog_of(config.catalog or "", config.catalog_properties)
    return IcebergTable(catalog, config.table or "", uri, rows, create=create)
