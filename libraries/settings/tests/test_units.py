"""Parsing, printing and validation of unit types."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_settings import Address, Duration, Expiry, Secret, Size, SizeLimit

U64_MAX = 2**64 - 1


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("10 s", 10_000_000),
        ("10s", 10_000_000),
        ("1 h 30 m", 5_400_000_000),
        ("500 ms", 500_000),
        ("7 days", 604_800_000_000),
        ("1 W", 604_800_000_000),
        ("3 us 2 ms", 2_003),
        ("0", 0),
        ("none", 0),
        ("Unlimited", 0),
        ("disabled", 0),
    ],
)
def test_durations(text: str, micros: int) -> None:
    assert Duration.parse(text).micros == micros


@pytest.mark.parametrize("text", ["", "10", "ten s", "10 parsecs", "-1 s", "1.5 s", "s", "9999999999999 weeks"])
def test_refused_durations(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        Duration.parse(text)


@given(st.integers(0, U64_MAX))
def test_a_printed_duration_reads_back(micros: int) -> None:
    assert Duration.parse(str(Duration(micros))) == Duration(micros)


@given(st.text(alphabet="0123456789 smhduwµ.kKiBGb", max_size=20))
def test_any_text_is_a_value_or_a_value_error(text: str) -> None:
    for kind in (Duration, Expiry, Size, SizeLimit, Address):
        try:
            value = kind.parse(text)
        except ValueError:
            continue
        assert kind.parse(str(value)) == value


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("1 KB", 1000),
        ("1 KiB", 1024),
        ("1kib", 1024),
        ("1.5 GiB", 1_610_612_736),
        ("4096", 4096),
        ("100 B", 100),
        ("0", 0),
        ("2 TB", 2 * 10**12),
    ],
)
def test_sizes(text: str, size_bytes: int) -> None:
    assert Size.parse(text).bytes == size_bytes


@pytest.mark.parametrize("text", ["", "1.5 B", "1 KX", "-1", "unlimited", "one", "18446744073709551615"])
def test_refused_sizes(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        Size.parse(text)


@given(st.integers(0, U64_MAX - 1))
def test_a_printed_size_reads_back(size_bytes: int) -> None:
    assert Size.parse(str(Size(size_bytes))) == Size(size_bytes)


def test_limits_may_be_unlimited() -> None:
    for text in ("0", "none", "unlimited", "0 B"):
        assert SizeLimit.parse(text).is_unlimited
    assert SizeLimit.parse("10 GiB").bytes == 10 * 2**30
    assert SizeLimit.parse("unlimited") > SizeLimit.parse("16 TiB")


def test_expiries() -> None:
    assert Expiry.parse("never").micros == U64_MAX
    assert Expiry.parse("server_default").micros == 0
    assert Expiry.parse("7 days") == Expiry(604_800_000_000)
    for text in ("0", "0 s", "4294967296 s"):
        with pytest.raises(ValueError, match=r"\S"):
            Expiry.parse(text)


@given(st.one_of(st.integers(1, Expiry.MICROS_MAX), st.sampled_from([0, U64_MAX])))
def test_a_printed_expiry_reads_back(micros: int) -> None:
    assert Expiry.parse(str(Expiry(micros))) == Expiry(micros)


@given(st.ip_addresses(), st.integers(0, 65535))
def test_a_printed_address_reads_back(ip: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> None:
    assert Address.parse(str(Address(ip, port))) == Address(ip, port)


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1", "::1:80", "localhost:80", "127.0.0.1:65536", "127.0.0.1:-1", "[::1]", "[1]:2"]
)
def test_refused_addresses(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        Address.parse(text)


@given(st.text(min_size=9))
def test_a_secret_shows_itself_only_when_asked(text: str) -> None:
    secret = Secret(text)
    assert secret.reveal() == text
    assert text not in f"{secret} {secret!r}" or text in "Secret([redacted]) [redacted]"
    assert secret == Secret(text)
