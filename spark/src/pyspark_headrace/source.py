"""Data source ``format("headrace")``. Every planning process imports this module, so expensive imports are deferred."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader

from pyspark_headrace.sail import ExactReader, arrow_schema, is_sail, struct

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_headrace.read.stream_reader import StreamReader
    from pyspark_headrace.sink import BatchWriter, StreamWriter


class DefaultSource(DataSource):
    """Data source of Headrace topics. Spark finds the class by the name of the package."""

    @classmethod
    def name(cls) -> str:
        """Name of the data source for `format`."""
        return "headrace"

    def schema(self) -> str | pa.Schema:
        """Return the schema that the options select."""
        from pyspark_headrace.columns.schema import ddl, selected  # noqa: PLC0415
        from pyspark_headrace.options.reading import read_options  # noqa: PLC0415 - see above

        options = read_options(self.options)
        return arrow_schema(selected(options)) if is_sail() else ddl(options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Create the reader of a batch."""
        from pyspark_headrace.read.batch_reader import BatchReader  # noqa: PLC0415

        reader = BatchReader(self.options, struct(schema))
        return ExactReader(reader, schema) if is_sail() else reader

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Create the reader of a stream."""
        from pyspark_headrace.read.stream_reader import StreamReader  # noqa: PLC0415

        return StreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Create the writer of a batch."""
        from pyspark_headrace.sink import BatchWriter  # noqa: PLC0415

        return BatchWriter(self.options, struct(schema), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: ARG002, N802 - Spark's
        """Create the writer of a stream."""
        from pyspark_headrace.sink import StreamWriter  # noqa: PLC0415

        return StreamWriter(self.options, schema)
