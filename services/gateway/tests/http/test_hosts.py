"""Host names accepted by the HTTP API."""

from __future__ import annotations

import pytest

from headrace_gateway.http.admission.hosts import Hosts

NAMES = ("localhost", "LOCALHOST:3000", "console.localhost:80", "127.0.0.1:3000", "[::1]:3000", "192.0.2.7", None)


@pytest.mark.parametrize("host", NAMES)
@pytest.mark.parametrize("is_loopback", [True, False])
@pytest.mark.parametrize("allowed", [(), ("headrace.example",)])
def test_names_that_no_page_can_take(host: str | None, is_loopback: bool, allowed: tuple[str, ...]) -> None:
    assert Hosts(allowed, is_loopback=is_loopback).allow(host)


@pytest.mark.parametrize(
    "host",
    ["rebound.example", "rebound.example:3000", "localhost.example", "notlocalhost", "", "127.0.0.1.example", "[::1"],
)
def test_other_names_are_refused_on_loopback_unless_they_are_listed(host: str) -> None:
    assert Hosts((), is_loopback=True).allow(host) is (host == "[::1")
    assert Hosts(("headrace.example",), is_loopback=False).allow(host) is (host == "[::1")
    assert Hosts((), is_loopback=False).allow(host)
    assert Hosts(("*",), is_loopback=True).allow(host)


@pytest.mark.parametrize("host", ["headrace.example", "Headrace.Example:8080", "headrace.example."])
def test_listed_names_are_allowed(host: str) -> None:
    assert Hosts(("headrace.example",), is_loopback=True).allow(host)
