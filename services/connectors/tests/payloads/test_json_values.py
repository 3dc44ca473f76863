"""Decoding of JSON: the same values as before, in a time that is proportional to their size."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from decimal import Decimal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace_connectors.json_errors import NO_FORM_IN_JSON, NOT_JSON
from headrace_connectors.json_values import JsonEncoder, json_value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_those_of_the_library(number: float) -> None:
    encoded = msgspec.json.encode([number, {"n": number}])
    found = json_value(encoded)
    assert found == msgspec.json.decode(encoded) == [number, {"n": number}]
    assert JsonEncoder().encode(found) == encoded


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,30})\.[0-9]{1,30}([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@given(NUMBERS)
@example("1.50")
@example("1e400")
@example("0.00001")
@example("1E-7")
@example("-0.0")
@example("12345678901234.56")
@example("123456789012345.67")
@example("0.12345678901234567890")
def test_a_number_is_passed_on_as_it_was_written(text: str) -> None:
    """Regression: digits after the seventeenth were cut, and numbers beyond doubles refused."""
    written = f'[{text},{{"n":{text}}}]'.encode()
    value = json_value(written)
    # A copy, as a transform makes it, is the same number.
    for one in (value, copy.deepcopy(value)):
        encoded = JsonEncoder().encode(one)
        assert encoded == written or (type(one[0]) is float and msgspec.json.decode(encoded)[0] == float(text))
        assert Decimal(str(one[0])) == Decimal(text)


def test_numbers_at_the_ends_of_what_a_double_can_have_take_no_longer_than_others() -> None:
    """Regression: 170,000 of them in one record took the event loop for two seconds, in any thread."""

    def seconds(decode: Callable[[bytes], object]) -> float:
        begin = time.thread_time()
        decode(body)
        return time.thread_time() - begin

    body = b"[" + b",".join([b"1e308"] * 20_000) + b"]"
    # A tenth, at rest.
    assert min(seconds(json_value) for _ in range(3)) < min(seconds(msgspec.json.decode) for _ in range(3)) / 2


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
def test_what_json_has_no_number_for_is_refused(number: float) -> None:
    """Regression: it was null. Null itself, and the text, are values of JSON."""
    for value in (number, {"a": [None, {"b": number}]}, (1, number)):
        with pytest.raises(NO_FORM_IN_JSON, match="JSON has no number"):
            JsonEncoder().encode(value)
    assert JsonEncoder().encode([None, "null", {"null": 1.5}]) == b'[null,"null",{"null":1.5}]'


@pytest.mark.parametrize("text", [b"1e", b"1.", b"NaN", b"Infinity", b"+1.0"])
def test_what_is_no_number_is_refused(text: bytes) -> None:
    with pytest.raises(NOT_JSON):
        json_value(text)
