"""Reading files of an archive, each of which is compared with what the log says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from pyspark_headrace.jobs.archives.columns import RAW_SCHEMA
from pyspark_headrace.jobs.archives.errors import DamagedFileError, MissingFileError
from pyspark_headrace.jobs.archives.files import RAW, ArchivedFile
from pyspark_headrace.jobs.archives.footers import differences
from pyspark_headrace.jobs.archives.stores import Store


def batches(
    store: Store, file: ArchivedFile, columns: Sequence[str] | None = None, *, batch_rows: int = 16_384
) -> Iterator[pa.RecordBatch]:
    """Read a file piece by piece, in the order of its offsets.

    Args:
        store: Where it is.
        file: What the log says of it.
        columns: Which ones; all without.
        batch_rows: Rows of a piece at most.

    Raises:
        MissingFileError: It is not there.
        DamagedFileError: It cannot be read, or its footer or its number of rows is not what the log says.
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
    """Read a file whole.

    Args:
        store: Where it is.
        file: What the log says of it.
        columns: Which ones; all without.

    Raises:
        MissingFileError: It is not there.
        DamagedFileError: It cannot be read, or its footer or its number of rows is not what the log says.
        StoreError: The store cannot be read.
    """
    with opened(store, file) as parquet, _named(file):
        table = parquet.read(columns=None if columns is None else list(columns))
    if table.num_rows != file.rows:
        raise DamagedFileError(file.path, f"has {table.num_rows} rows, and {file.rows} in the log")
    return table


@contextmanager
def opened(store: Store, file: ArchivedFile, *, any_footer: bool = False) -> Iterator[pq.ParquetFile]:
    """Open a file; checksums of its pages are compared.

    Args:
        store: Where it is.
        file: What the log says of it.
        any_footer: Take it whatever its footer says.

    Raises:
        MissingFileError: It is not there.
        DamagedFileError: It is no file of Parquet, its columns are not those of messages, or its footer is not what the
            log says.
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
        # Since it was opened.
        raise MissingFileError(file.path, "is missing") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DamagedFileError(file.path, f"cannot be read: {error}") from error
