"""Facts that only a running server has: its metrics, and the description of its HTTP interface."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

import headrace_gateway.http.metrics
from headrace_chassis.metrics import registry
from headrace_embedded import Server

SETTINGS: Final = {"quic.enabled": "true", "quic.address": "127.0.0.1:0"}
"""A listener that decrypts, whose metrics a server has only if it has such a listener."""


@dataclass(frozen=True)
class RunningServer:
    """A server that runs."""

    registries: list[CollectorRegistry]
    """Registries of its metrics."""
    openapi: dict[str, Any]
    """OpenAPI description of its HTTP interface."""


@contextmanager
def running_server() -> Iterator[RunningServer]:
    """Run an embedded server on free ports, with a temporary data directory."""
    registries: list[CollectorRegistry] = []

    def kept(*collectors: Collector) -> CollectorRegistry:
        registries.append(registry(*collectors))
        return registries[-1]

    with mock.patch.object(headrace_gateway.http.metrics, "registry", kept), Server(settings=SETTINGS) as server:
        with urllib.request.urlopen(f"{server.http_url}/openapi.json") as response:  # noqa: S310 - it is http
            description: dict[str, Any] = json.load(response)
        yield RunningServer(registries, description)
