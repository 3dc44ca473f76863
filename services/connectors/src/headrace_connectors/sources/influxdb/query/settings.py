"""Settings of the source `influxdb_query`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from headrace_connectors.contract import Settings
from headrace_settings import Between, Duration, Secret


class InfluxQuerySettings(Settings):
    """`settings` of the source `influxdb_query`."""

    url: str = Field(pattern="^https?://[^/]+/?$")
    """Address, as `http://influxdb:8086`."""
    database: str | None = None
    """Database that is read in InfluxQL: of InfluxDB 1. Either this or `bucket`."""
    retention_policy: str | None = None
    """Retention policy of the database; the default one if not set."""
    bucket: str | None = None
    """Bucket that is read in Flux, from 1970 on: of InfluxDB 2, or of 1.8 as `database/policy`."""
    organization: str | None = None
    """Organization of the bucket; InfluxDB 2 needs it."""
    measurements: tuple[str, ...] = ()
    """Measurements that are read; empty: all."""
    username: str | None = None
    """User of InfluxDB 1, with a password."""
    password: Secret | None = None
    """Password of the user."""
    token: Secret | None = None
    """Token of InfluxDB 2; of 1.8 `user:password`."""
    start: Literal["first", "end"] = "first"
    """Begin without a state at the first point, or at those that follow."""
    lag: Annotated[Duration, Between(Duration.parse("0 s"), Duration.parse("30 day"))] = Duration.parse("10 s")
    """Age at which points are read, by the clock of this machine. One that is written later than that after its time is
    not seen, unless it is the newest.
    """
    batch_size: Annotated[int, Between(1, 100_000)] = 5000
    """Maximum number of points of a batch, unless more have the same time: these are never divided."""
    poll_interval: Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 day"))] = Duration.parse("1 s")
    """Pause after a poll without points."""
    timeout: Duration = Duration.parse("1 min")
    """Time for the answer to a query."""
    ca_file: Path | None = None
    """Certificate of the authority that has signed the server's one; that of the system if not set."""

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if (self.database is None) == (self.bucket is None):
            raise ValueError("exactly one of database (InfluxQL) and bucket (Flux) names what is read: set one of them")
        if self.retention_policy is not None and self.database is None:
            raise ValueError("retention_policy belongs to database: name the bucket alone")
        if self.organization is not None and self.bucket is None:
            raise ValueError("organization belongs to bucket: a database has none")
        return self

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password belong together: set both, or a token")
        if self.token is not None and self.username is not None:
            raise ValueError("a token replaces username and password: set one of them")
        return self

    @property
    def place(self) -> str:
        """Return the name of what is read, as payloads have it."""
        if self.bucket is not None:
            return self.bucket
        return "/".join(part for part in (self.database, self.retention_policy) if part)
