"""Options, keys and starts: what is allowed, and what errors say."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import headrace
from headrace.sdk.blocking.admin import micros
from headrace.sdk.options import checked_options, key_bytes
from headrace.sdk.starts import start_of

CLASSES = (
    headrace.ClientOptions,
    headrace.ProducerOptions,
    headrace.DirectProducerOptions,
    headrace.ConsumerOptions,
)
TIMES = [
    (headrace.ClientOptions, "connect_timeout", False),
    (headrace.ClientOptions, "request_timeout", True),
    (headrace.ClientOptions, "response_timeout", False),
    (headrace.ClientOptions, "keepalive", False),
    (headrace.ProducerOptions, "linger", True),
    (headrace.ProducerOptions, "delivery_timeout", False),
    (headrace.DirectProducerOptions, "delivery_timeout", False),
    (headrace.ConsumerOptions, "commit_interval", True),
    (headrace.ConsumerOptions, "heartbeat", False),
]
MOST_SECONDS = {"heartbeat": 10}
COUNTS = [
    (headrace.ClientOptions, "connect_attempts"),
    (headrace.ProducerOptions, "batch_messages"),
    (headrace.ProducerOptions, "batch_bytes"),
    (headrace.ProducerOptions, "in_flight"),
    (headrace.ProducerOptions, "buffer_bytes"),
    (headrace.DirectProducerOptions, "batch_bytes"),
    (headrace.DirectProducerOptions, "max_concurrent_destinations"),
    (headrace.ConsumerOptions, "batch_messages"),
    (headrace.ConsumerOptions, "prefetch_bytes"),
]
FLAGS = [
    (headrace.ProducerOptions, "resend_uncertain"),
    (headrace.ProducerOptions, "store_key"),
    (headrace.DirectProducerOptions, "store_key"),
    (headrace.ConsumerOptions, "create_dead_letter_topic"),
]
OTHERS = {
    (headrace.ClientOptions, "telemetry"),
    (headrace.ConsumerOptions, "commit"),
    (headrace.ConsumerOptions, "dead_letter_topic"),
}


def test_every_option_is_covered_here() -> None:
    named = {(kind, name) for kind, name, _ in TIMES} | {*COUNTS, *FLAGS, *OTHERS}
    assert named == {(kind, name) for kind in CLASSES for name in kind.__dataclass_fields__}


def test_an_empty_dead_letter_topic_is_refused() -> None:
    with pytest.raises(headrace.InvalidArgument, match=r"^dead_letter_topic: it is empty"):
        headrace.ConsumerOptions(dead_letter_topic="")


@pytest.mark.parametrize(("kind", "name", "may_be_zero"), TIMES)
def test_times_are_checked(kind: Any, name: str, may_be_zero: bool) -> None:
    most = MOST_SECONDS.get(name, 1_000_000_000)
    for value in (0.001, 1, most):
        assert getattr(kind(**{name: value}), name) == value
    for value in (-1, most + 1, float("nan"), float("inf"), 1e300, "1", None, True, *([] if may_be_zero else [0])):
        with pytest.raises(headrace.InvalidArgument, match=f"^{name}: "):
            kind(**{name: value})
    if may_be_zero:
        assert getattr(kind(**{name: 0}), name) == 0


@pytest.mark.parametrize(("kind", "name"), COUNTS)
def test_counts_are_checked(kind: Any, name: str) -> None:
    assert getattr(kind(**{name: 1}), name) == 1
    for value in (0, -1, 1.5, "1", None, True, 2**70):
        with pytest.raises(headrace.InvalidArgument, match=f"^{name}: .*at least 1"):
            kind(**{name: value})


@pytest.mark.parametrize(("kind", "name"), FLAGS)
def test_flags_are_checked(kind: Any, name: str) -> None:
    for value in (0, 1, "no", None):
        with pytest.raises(headrace.InvalidArgument, match=f"^{name}: .*neither True nor False"):
            kind(**{name: value})


def test_the_kind_of_commits_is_checked() -> None:
    with pytest.raises(headrace.InvalidArgument, match="commit: 'always' is none of 'auto' and 'manual'"):
        headrace.ConsumerOptions(commit="always")  # type: ignore[arg-type]


def test_an_unknown_option_is_named_with_the_known_ones() -> None:
    with pytest.raises(headrace.InvalidArgument, match=r"lingers: there is no such option; there are linger, "):
        checked_options(headrace.ProducerOptions, {"lingers": 1})
    assert checked_options(headrace.ProducerOptions, {"linger": 1}).linger == 1


def test_options_do_not_change() -> None:
    for kind in CLASSES:
        options = kind()
        name = next(iter(kind.__dataclass_fields__))
        with pytest.raises(AttributeError):
            setattr(options, name, 1)
        with pytest.raises(TypeError):
            kind(1)


def test_keys_are_bytes_or_text() -> None:
    assert key_bytes(None) is None
    assert key_bytes(b"k") == b"k"
    assert key_bytes("grün") == "grün".encode()
    assert key_bytes(b"x" * 255) == b"x" * 255


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (b"", "it has 0 bytes"),
        ("", "it has 0 bytes"),
        (b"x" * 256, "it has 256 bytes"),
        ("ü" * 128, "it has 256 bytes"),
        (7, "a int is neither bytes nor text"),
        (bytearray(b"x"), "a bytearray is neither"),
        ("\ud800", "no form in UTF-8"),
    ],
)
def test_keys_that_cannot_be_sent_are_refused(key: Any, problem: str) -> None:
    with pytest.raises(headrace.InvalidArgument, match=f"^key: .*{problem}"):
        key_bytes(key)


def test_starts() -> None:
    moment = datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    expected = int(datetime(2026, 5, 1, 10, tzinfo=UTC).timestamp()) * 1_000_000
    assert start_of("first") == headrace.FIRST == headrace.Start("first")
    assert start_of("end") == headrace.END == headrace.Start("end")
    assert start_of(7) == headrace.at_offset(7) == headrace.Start("offset", 7)
    assert start_of(moment) == headrace.at_time(moment) == headrace.Start("timestamp", expected)
    assert start_of(headrace.END) is headrace.END


class OwnDuration(timedelta):
    """A duration that its own kind alone can divide, as Pendulum's."""

    def __floordiv__(self, other: object) -> Any:
        return other.own_micros  # type: ignore[attr-defined]


class OwnMoment(datetime):
    """A moment whose differences are such durations."""

    def __sub__(self, other: Any) -> Any:
        return OwnDuration(seconds=datetime.__sub__(self, other).total_seconds())


def test_moments_and_durations_of_other_libraries() -> None:
    given = (2026, 5, 1, 12, 30, 15, 7)
    zone = timezone(timedelta(hours=2))
    assert headrace.at_time(OwnMoment(*given, tzinfo=zone)) == headrace.at_time(datetime(*given, tzinfo=zone))
    assert headrace.at_time(datetime(*given, tzinfo=zone)).value % 1_000_000 == 7
    assert micros(OwnDuration(days=8, seconds=5, microseconds=7)) == (8 * 86_400 + 5) * 1_000_000 + 7
    assert micros(None) == 0


@pytest.mark.parametrize(
    ("start", "problem"),
    [
        (-1, "offset: -1 is negative"),
        (2**64, "offset: 18446744073709551616 is"),
        (True, "start: True is no offset"),
        ("last", "start: 'last' is no offset"),
        (1.5, "start: 1.5 is no offset"),
        (None, "start: None is no offset"),
        (datetime(2026, 1, 1), "has no time zone"),  # noqa: DTZ001 - that is what is refused
        (datetime(1969, 1, 1, tzinfo=UTC), "is before 1970"),
    ],
)
def test_starts_that_mean_nothing_are_refused(start: Any, problem: str) -> None:
    with pytest.raises(headrace.InvalidArgument, match=problem):
        start_of(start)


@pytest.mark.parametrize(("given", "meant"), [("earliest", "first"), ("latest", "end"), ("beginning", "first")])
def test_a_start_of_another_system_leads_to_ours(given: Any, meant: str) -> None:
    with pytest.raises(headrace.InvalidArgument, match=f"none of 'first' and 'end': did you mean '{meant}'"):
        start_of(given)
