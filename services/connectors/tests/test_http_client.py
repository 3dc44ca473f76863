"""Requests of connectors to HTTP servers: what their answers ask for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from functools import partial

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_connectors.http_client import not_reached, pause_of, reason_of, without_secrets

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("text", ["0", "17", " 17 ", "1" * 400])
def test_a_pause_in_seconds(text):
    assert pause_of({"Retry-After": text}) == float(text)


@pytest.mark.parametrize(
    "form",
    [
        partial(format_datetime, usegmt=True),
        lambda time: format_datetime(time.astimezone(timezone(timedelta(hours=-5)))),
        "{:%a, %d %b %Y %H:%M:%S -0000}".format,
        "{:%a %b %d %H:%M:%S %Y}".format,
    ],
    ids=["GMT", "another zone", "no zone", "asctime"],
)
def test_a_pause_until_a_date(form):
    assert 3000 < pause_of({"Retry-After": form(datetime.now(UTC) + HOUR)}) <= 3600


def test_a_date_that_is_over_asks_for_no_pause():
    assert pause_of({"Retry-After": format_datetime(datetime.now(UTC) - HOUR, usegmt=True)}) == 0


@pytest.mark.parametrize(
    "text",
    ["", "-1", "1.5", "\u00b2", "\u0663", "soon", "Thu, 99 Nov 2026 10:00:00 GMT", f"1 Nov 2026 10:00 +{10**30}"],
)
def test_what_cannot_be_read_asks_for_nothing(text):
    assert pause_of({"Retry-After": text}) is None


def test_without_a_header_there_is_no_pause():
    assert pause_of({}) is None


@given(text=st.text() | st.text("0123456789+-:, ANov") | st.dates().map("{:%d %b %Y} 10:00 -0000".format))
def test_no_text_fails(text):
    pause = pause_of({"Retry-After": text})
    assert pause is None or pause >= 0


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://anna:hunter2@shop/in?token=hunter3#hunter4", "https://shop/in"),
        ("https://anna:hunter@2@shop:80/in", "https://shop:80/in"),
        ("https://anna:hunter/2@shop", "the address"),
        ("https://anna:hunter#2@shop", "the address"),
        ("https://anna:hunter2@[shop", "the address"),
    ],
)
def test_an_address_is_shown_without_secrets(url, shown):
    assert without_secrets(url) == shown


def test_texts_of_aiohttp_are_shown_without_the_address():
    url = "https://shop/in?token=hunter3"
    request = aiohttp.RequestInfo(url, "GET", {}, url)
    errors = {
        aiohttp.ClientResponseError(request, (), status=400, message="no HTTP"): "no HTTP",
        aiohttp.TooManyRedirects(request, ()): "TooManyRedirects",
        aiohttp.InvalidUrlRedirectClientError(url): "it redirects to what is no address",
    }
    for error, reason in errors.items():
        assert "hunter" in str(error)
        assert reason_of(error) == reason
        assert str(not_reached(url, error)) == f"https://shop/in is not reached: {reason}"
