"""The blocking client of the native module: threads beside a call."""

import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import headrace
from headrace_core import Client, ConnectionLost


def test_closing_during_a_call_does_not_stop_other_threads() -> None:
    with ThreadPoolExecutor(2) as threads, socket.create_server(("127.0.0.1", 0)) as server:
        client = Client.connect(f"127.0.0.1:{server.getsockname()[1]}", 10)
        connection, _ = server.accept()
        with connection:
            ping = threads.submit(client.ping)
            assert connection.recv(1)
            begin = time.monotonic()
            closing = threads.submit(client.close)
            time.sleep(0.1)
            assert time.monotonic() - begin < 5
            assert not closing.done()
        with pytest.raises(ConnectionLost):
            ping.result(60)
        closing.result(60)
    with pytest.raises(ConnectionLost, match="the client is closed"):
        client.ping()


def test_a_failure_that_is_raised_is_not_logged_as_well(caplog: pytest.LogCaptureFixture) -> None:
    """Without logging set up, records of warnings and errors are printed: the reason would be there twice."""
    with pytest.raises(headrace.ConnectionFailed):
        headrace.connect("headrace://127.0.0.1:1", username="root", password="secret")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
