"""Topics as tables: Arrow, Polars and DuckDB. Needs `pip install "headrace[tables]"`."""

from headrace.tables.arrow import COLUMNS, record_batch, schema_of
from headrace.tables.scan import Scan

__all__ = ["COLUMNS", "Scan", "record_batch", "schema_of"]
