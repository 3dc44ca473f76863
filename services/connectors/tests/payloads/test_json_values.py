"""Decoding of JSON: the same values as before, in a time that is proportional to their size."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.json_values import json_value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_those_of_the_library(number: float) -> None:
    encoded = msgspec.json.encode([number, {"n": number}])
    found = json_value(encoded)
    assert found == msgspec.json.decode(encoded) == [number, {"n": number}]
    assert type(found[0]) is float


@pytest.mark.parametrize("text", [b"1e999", b"[-1e309]", b"1e", b"1.", b"NaN", b"Infinity", b"9" * 400 + b".5"])
def test_what_is_no_number_is_refused(text: bytes) -> None:
    with pytest.raises(NOT_JSON):
        json_value(text)
