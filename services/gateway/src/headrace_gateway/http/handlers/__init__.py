"""Handlers of the routes, by subject."""

from headrace_gateway.http.handlers import (
    audit,
    connectors,
    events,
    groups,
    lags,
    logs,
    members,
    messages,
    offsets,
    partitions,
    quotas,
    search,
    sessions,
    streams,
    system,
    tokens,
    topics,
    users,
)
from headrace_gateway.http.routes import Route

ROUTES: list[Route] = [
    route
    for family in (
        system,
        logs,
        audit,
        sessions,
        users,
        tokens,
        streams,
        topics,
        partitions,
        messages,
        search,
        events,
        offsets,
        groups,
        lags,
        members,
        quotas,
        connectors,
    )
    for route in family.routes.all
]
"""All routes, in the order of the API description."""
