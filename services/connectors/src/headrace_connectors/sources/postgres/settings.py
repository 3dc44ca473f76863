"""Settings of the source `postgres_cdc`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, model_validator

from headrace_connectors.contract import Settings
from headrace_connectors.postgresql.address import DatabaseUrl
from headrace_connectors.postgresql.tables import table_name
from headrace_settings import Between, Duration, Size


def _slot(name: str) -> str:
    if not name or len(name) > 63 or not all(c.isascii() and (c.islower() or c.isdigit() or c == "_") for c in name):
        raise ValueError(f'{name!r} is not the name of a slot: 1 to 63 of a to z, digits and "_"')
    return name


class CdcSettings(Settings):
    """`settings` of the source `postgres_cdc`."""

    url: DatabaseUrl
    """Address: `postgresql://user:password@host:5432/database`. The user needs the right to replicate."""
    slot: Annotated[str, AfterValidator(_slot)]
    """Replication slot of this source alone; created if missing."""
    tables: tuple[Annotated[str, AfterValidator(table_name)], ...]
    """Tables, as `schema.table`."""
    method: Literal["replication", "functions"] = "replication"
    """Changes are streamed over a connection of the replication protocol, or polled with SQL functions, which decode
    the log again at each poll: for poolers and servers that allow no such connections.
    """
    decoder: Literal["pgoutput", "test_decoding"] = "pgoutput"
    """Output plugin of the slot. `pgoutput` sends the chosen tables only, and needs a publication. `test_decoding` is
    always polled with SQL functions.
    """
    publication: str | None = None
    """Publication for `pgoutput`, created for the tables if missing; not set: the name of the slot."""
    snapshot: Literal["initial", "never"] = "initial"
    """Rows that exist at the first start come before the changes, or never."""
    failover: bool = False
    """Create the slot so that PostgreSQL 17 or newer copies it to standby servers (`sync_replication_slots`)."""
    batch_size: Annotated[int, Between(1, 1_000_000)] = 2000
    """Number of changes after which a batch ends, with the end of a transaction."""
    max_batch: Annotated[Size, Between(Size(1024), Size.parse("1 GiB"))] = Size.parse("16 MiB")
    """Size of changes after which a batch ends in any case. Larger transactions are split over several batches; with
    SQL functions they stay whole, whatever their size is.
    """
    poll_interval: Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 h"))] = Duration.parse(
        "200 ms"
    )
    """Pause after a poll without changes, with SQL functions."""

    @model_validator(mode="after")
    def _has_tables(self) -> Self:
        if not self.tables:
            raise ValueError("tables names no table")
        return self

    @property
    def publication_name(self) -> str:
        """Name of the publication."""
        return self.publication or self.slot

    @property
    def is_streamed(self) -> bool:
        """True if changes come over a connection of the replication protocol."""
        return self.method == "replication" and self.decoder == "pgoutput"
