"""Requests of connectors to HTTP servers: what their answers ask for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_connectors.http_client import pause_of

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
