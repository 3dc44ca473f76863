"""Queries of the audit trail."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from headrace_gateway.json_api.numbers import U64, Checked


class AuditQuery(Checked):
    """Filter for events."""

    since: Annotated[U64, Meta(description="Microseconds since the Unix epoch.")] = 0
    until: Annotated[
        U64, Meta(description="End of the range (exclusive), in microseconds since the epoch; 0: now.")
    ] = 0
    event: Literal["login", "refusal", "change"] | None = None
    action: Annotated[str | None, Meta(description="Such as `create_user`, `login_with_password`.")] = None
    user: Annotated[str | None, Meta(description="Name or id of the user who acted.")] = None
    address: Annotated[str | None, Meta(description="Address of the client, with or without the port.")] = None
    result: Annotated[str | None, Meta(description="`ok`, `failed`, `begun`, or the name of a status.")] = None
    count: Annotated[int, Meta(ge=1, le=100_000, description="Maximum number of events; the newest.")] = 1000
