"""Connections within the limit of open files."""

import resource

import pytest

from headrace_chassis.open_files import connections_max, possible_within


@pytest.mark.parametrize(
    ("files_max", "possible"), [(resource.RLIM_INFINITY, None), (1024, 64), (300, 16), (2**20, 87_360)]
)
def test_listeners_leave_files_to_the_log(files_max, possible):
    assert possible_within(files_max) == possible


def test_a_lower_number_is_logged(monkeypatch, caplog):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert connections_max(100, "http.max_connections") == 100
    assert not caplog.records
    assert connections_max(12_000, "http.max_connections") == 320
    assert "http.max_connections = 12000: the limit of open files (ulimit -Hn) permits 320" in caplog.text
