"""Records of the log, and settings."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import msgspec
from msgspec import Meta

from headrace_gateway.http.models.messages import WaitMillis
from headrace_gateway.json_api.numbers import U64, Checked, Micros
from headrace_gateway.observability.recent_logs import LogRecord
from headrace_settings import ShownSetting

Level = Literal["debug", "info", "warning", "error"]


class LogsQuery(Checked):
    """Range of log records."""

    after: Annotated[U64, Meta(description="Number of the last record already received; 0 for none.")] = 0
    count: Annotated[
        int, Meta(ge=1, le=1000, description="Maximum number of records: the newest, or after `after`.")
    ] = 200
    level: Annotated[Level, Meta(description="Lowest level of the records to return.")] = "debug"
    wait_ms: WaitMillis = 0


class LogAnswer(msgspec.Struct, kw_only=True):
    """A record of the log."""

    sequence: Annotated[int, Meta(description="Number of the record, counted from 1 since the start of the server.")]
    timestamp: Micros
    level: Level
    logger: str
    message: str
    fields: dict[str, str | int | float | bool | None]
    exception: str | None

    @classmethod
    def of(cls, record: LogRecord) -> Self:
        """Convert a record of the ring."""
        return msgspec.convert(record, cls, from_attributes=True)


class LogsAnswer(msgspec.Struct, kw_only=True):
    """Records in their order."""

    records: list[LogAnswer]
    last: Annotated[int, Meta(description="Value of `after` for the next request.")]
    missed: Annotated[int, Meta(description="Number of discarded records after `after`, of any level.")]


class SettingAnswer(msgspec.Struct, kw_only=True):
    """A setting in force."""

    name: str
    value: Annotated[str | None, Meta(description="Value in TOML; null if it is not set, or a secret.")]
    is_set: bool
    is_secret: bool
    is_default: bool
    origin: Annotated[str, Meta(description="Source of the value.")]
    variable: Annotated[str, Meta(description="The environment variable that sets it.")]
    description: str
    allowed: str

    @classmethod
    def of(cls, setting: ShownSetting) -> Self:
        """Convert a setting of the server."""
        return msgspec.convert(setting, cls, from_attributes=True)
