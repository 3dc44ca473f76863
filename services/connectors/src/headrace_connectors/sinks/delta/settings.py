"""Settings of the sink `delta`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import pyarrow as pa
from pydantic import Field, model_validator

from headrace_connectors.sinks.parquet.tables import Tables, TablesSettings
from headrace_settings import Secret

PLACE: Final = pa.schema(
    [
        pa.field("_stream", pa.string(), nullable=False),
        pa.field("_topic", pa.string(), nullable=False),
        pa.field("_partition", pa.int64(), nullable=False),
    ]
)
"""Columns with the place of a message."""


class DeltaSettings(TablesSettings):
    """`settings` of the sink `delta`."""

    path: str
    """Directory of the table, or its address in an object store, as `s3://lake/orders`. It is created if missing. With
    `table_field` the tables are directories in it, and `_offsets` beside them has the offsets.
    """
    add_columns: bool = False
    """Add columns to a table that does not have them; otherwise such a table is refused."""
    partition_by: tuple[str, ...] = ()
    """Columns that a new table is partitioned by. Beside those of `parquet`, tables have the columns `_stream`,
    `_topic` and `_partition`.
    """
    offsets_name: str = "headrace"
    """Name under which offsets are stored in the table. Two sinks that write the same topic to the same table need two
    names.
    """
    storage_options: Mapping[str, Secret] = Field(default_factory=dict)
    """Options of the object store, such as `{ AWS_REGION = "eu-central-1" }`; its variables of the environment count,
    too.
    """

    @model_validator(mode="after")
    def _partitions_by_columns(self) -> Self:
        for table, shape in Tables(self).shapes.items():
            known = [*PLACE.names, *shape.schema.names]
            unknown = [name for name in self.partition_by if name not in known]
            if unknown:
                where = "" if table is None else f" of {table}"
                raise ValueError(
                    f"partition_by names {', '.join(unknown)}, which is no column{where}; there are {', '.join(known)}"
                )
        return self
