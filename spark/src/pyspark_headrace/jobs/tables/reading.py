"""Reader of archive files. Each file is compared with its description in the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.jobs.tables.errors import DamagedFileError, MissingFileError
from pyspark_headrace.jobs.tables.files import RAW, ArchivedFile
from pyspark_headrace.jobs.tables.footers import differences
from pyspark_headrace.jobs.tables.stores import Store


def batches(
    store: Store, file: ArchivedFile, columns: Sequence[str] | None = None, *, batch_rows: int = 16_384
) -> Iterator[pa.RecordBatch]:
    """Read a file in batches, in offset order.

    Args:
        store: Store of the file.
        file: Description in the log.
        columns: Columns to read; default: all.
        batch_rows: Maximum number of rows of a batch.

    Raises:
        MissingFileError: The file does not exist.
        DamagedFileError: The file cannot be read, or its footer or number of rows does not match the log.
        StoreError: The store cannot be read.
    """
    with opened(store, file) as parquet, _named(file):
        count = 0
        for batch in parquet.iter_batches(batch_rows, columns=None if columns is None else list(columns)):
            count += batch.num_rows
            yield batch
    if count != file.rows:
        raise DamagedFileError(file.path, f"has {count} rows, and {file.rows} in the log")


def read_table(store: Store, file: ArchivedFile, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a complete file.

    Args:
        store: Store of the file.
        file: Description in the log.
        columns: Columns to read; default: all.

    Raises:
        MissingFileError: The file does not exist.
        DamagedFileError: The file cannot be read, or its footer or number of rows does not match the log.
        StoreError: The store cannot be read.
    """
    with opened(store, file) as parquet, _named(file):
        table = parquet.read(columns=None if columns is None else list(columns))
    if table.num_rows != file.rows:
        raise DamagedFileError(file.path, f"has {table.num_rows} rows, and {file.rows} in the log")
    return table


@contextmanager
def opened(store: Store, file: ArchivedFile, *, any_footer: bool = False) -> Iterator[pq.ParquetFile]:
    """Open a file with verification of page checksums.

    Args:
        store: Store of the file.
        file: Description in the log.
        any_footer: Skip the comparison of the footer.

    Raises:
        MissingFileError: The file does not exist.
        DamagedFileError: The file is not Parquet, its columns are not those of messages, or its footer does not match
            the log.
        StoreError: The store cannot be read.
    """
    try:
        source = store.input(file.path)
    except FileNotFoundError:
        raise MissingFileError(file.path, "is missing") from None
    if source.size() != file.bytes:
        raise DamagedFileError(file.path, f"has {source.size()} bytes, and {file.bytes} in the log")
    with _named(file):
        parquet = pq.ParquetFile(source, page_checksum_verification=True)
        columns = parquet.schema_arrow
    with parquet:
        if file.mode == RAW and not columns.equals(RAW_SCHEMA):
            raise DamagedFileError(file.path, f"its columns are {_named_columns(columns)}")
        wrong = [] if any_footer else differences(parquet.metadata.metadata or {}, file)
        if wrong:
            raise DamagedFileError(file.path, "; ".join(wrong))
        yield parquet


def _named_columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


@contextmanager
def _named(file: ArchivedFile) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        # The file was deleted after it was opened.
        raise MissingFileError(file.path, "is missing") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DamagedFileError(file.path, f"cannot be read: {error}") from error
