"""Rules for codecs: what is encoded is decoded again, and anything else is an InvalidRecord."""

from __future__ import annotations

from typing import Any, Final

from headrace_connectors.conformance.cases import CodecCase
from headrace_connectors.conformance.rules import NotChecked, Violation, rule
from headrace_connectors.contract import Codec, InvalidRecord

_EXAMPLES: Final = 200


def _checked(strategy: Any, check: Any) -> None:
    """Call a check with examples of a strategy; a failing one is shrunk.

    Raises:
        NotChecked: Hypothesis is not installed.
    """
    try:
        import hypothesis  # noqa: PLC0415 - for those who run the checks alone
    except ImportError as error:
        raise NotChecked("Hypothesis makes the examples: pip install hypothesis") from error
    settings = hypothesis.settings(max_examples=_EXAMPLES, deadline=None, database=None, derandomize=True)
    given: Any = hypothesis.given(strategy)
    settings(given(check))()


@rule
async def payloads_survive(case: CodecCase) -> None:
    """A payload that is encoded and decoded is the same, and its encoding is bytes."""
    codec = case.create()

    def check(payload: Any) -> None:
        encoded = codec.encode(payload)
        if not isinstance(encoded, bytes):
            raise Violation(f"{payload!r} is encoded as a {type(encoded).__name__}, not as bytes")
        decoded = codec.decode(encoded)
        if decoded != case.expected(payload):
            raise Violation(f"{payload!r} is decoded as {decoded!r}")

    _checked(case.payloads(), check)


@rule
async def bad_bytes_are_invalid_records(case: CodecCase) -> None:
    """Bytes of another form are an InvalidRecord with the reason, and never another failure."""
    codec = case.create()
    for bad in case.bad_bytes:
        if not _is_refused(codec, bad):
            raise Violation(f"{bad!r} is not of this form, and decoded without an error")
    try:
        from hypothesis import strategies  # noqa: PLC0415 - as above
    except ImportError as error:
        raise NotChecked("Hypothesis makes the examples: pip install hypothesis") from error

    def check(encoded: bytes) -> None:
        _is_refused(codec, encoded)

    _checked(strategies.binary(max_size=64), check)


def _is_refused(codec: Codec, encoded: bytes) -> bool:
    try:
        codec.decode(encoded)
    except InvalidRecord as error:
        if not str(error):
            raise Violation(f"{encoded!r} is refused without a reason") from error
        return True
    except Exception as error:
        raise Violation(f"{encoded!r} fails with {type(error).__name__}, not with InvalidRecord: {error}") from error
    return False


@rule
async def other_payloads_are_invalid_records(case: CodecCase) -> None:
    """A payload without a form in the codec is an InvalidRecord."""
    codec = case.create()
    try:
        codec.encode(object())
    except InvalidRecord:
        return
    except Exception as error:
        raise Violation(f"an object() fails with {type(error).__name__}, not with InvalidRecord: {error}") from error
    raise Violation("an object() is encoded without an error")


RULES: Final = (payloads_survive, bad_bytes_are_invalid_records, other_payloads_are_invalid_records)
