"""Selection of the table that a job writes to."""

from __future__ import annotations

import pyarrow as pa

from pyspark_headrace.jobs.archive.columns import Columns
from pyspark_headrace.jobs.archive.config import DELTA, ICEBERG, ArchiveConfig
from pyspark_headrace.jobs.archive.decoding import Decoding
from pyspark_headrace.jobs.tables.table import Table


def open_table(config: ArchiveConfig, decoding: Decoding | None) -> Table:
    """Open the table named by the arguments, and create it if missing. A dry run creates nothing.

    Raises:
        StoreError: The table cannot be opened.
    """
    # Each table format needs its own library, so only the selected one is imported.
    create = not config.dry_run
    if config.format == ICEBERG:
        from pyspark_headrace.jobs.tables.iceberg import IcebergTable, catalog_of  # noqa: PLC0415

        rows = _rows(decoding, IcebergTable.columns)
        catalog = catalog_of(config.catalog or "", config.catalog_properties)
        return IcebergTable(catalog, config.table or "", config.dest, rows, create=create)
    if config.format == DELTA:
        from pyspark_headrace.jobs.tables.delta import DeltaLakeTable  # noqa: PLC0415

        return DeltaLakeTable(config.dest, _rows(decoding, DeltaLakeTable.columns), create=create)
    from pyspark_headrace.jobs.tables.manifest_table import ManifestTable  # noqa: PLC0415

    return ManifestTable(config.dest, create=create)


def _rows(decoding: Decoding | None, names: tuple[str, ...]) -> pa.Schema:
    return Columns(decoding, names).schema
