"""The log as JSON lines (USE-6)."""

import json
import logging
import sys

from headrace_chassis.log_output import JsonLines


def test_each_record_is_a_line_that_names_its_process() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("headrace.x", logging.WARNING, "", 0, "%s happened", ("it",), sys.exc_info())
    record.view = 7
    text = JsonLines(replica=2).format(record)
    assert "\n" not in text
    line = json.loads(text)
    assert line.pop("timestamp").endswith("Z")
    assert "ValueError: two" in line.pop("exception")
    assert line == {"event": "it happened", "level": "warning", "logger": "headrace.x", "replica": 2, "view": 7}
