"""Addresses and credentials: from a URL, from arguments, from the environment."""

from pathlib import Path

import pytest

from headrace.sdk.address import Address, address_of
from headrace.sdk.connecting import session_config
from headrace.sdk.errors import InvalidArgument
from headrace.sdk.options import ClientOptions

CREDENTIALS = {"HEADRACE_USERNAME": "anna", "HEADRACE_PASSWORD": "secret"}


def servers(url: str) -> tuple[tuple[str, bool], ...]:
    return address_of(url, environment=CREDENTIALS).servers


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("localhost:9000", [("localhost:9000", False)]),
        ("localhost", [("localhost:8090", False)]),
        ("a:1,b:2", [("a:1", False), ("b:2", False)]),
        ("a, b:2", [("a:8090", False), ("b:2", False)]),
        ("[::1]:9000", [("[::1]:9000", False)]),
        ("[::1]", [("[::1]:8090", False)]),
        ("headrace://a,b:2", [("a:8090", False), ("b:2", False)]),
        ("headrace://a/", [("a:8090", False)]),
        ("headrace+ws://a", [("a:8092", True)]),
        ("headrace+wss://a?ca=/tls/ca.pem", [("tls://a:8092?ca=/tls/ca.pem", True)]),
        ("headrace+tls://a,b:2?ca=c", [("tls://a:8090?ca=c", False), ("tls://b:2?ca=c", False)]),
        ("headrace+tls://a?verify=no&name=server", [("tls://a:8090?verify=no&name=server", False)]),
        ("headrace+tls://a?ca=/my%20keys/a+b.pem", [("tls://a:8090?ca=/my keys/a+b.pem", False)]),
        ("headrace+tls://[::1]?verify=no", [("tls://[::1]:8090?verify=no", False)]),
        ("tls://a:1?verify=no", [("tls://a:1?verify=no", False)]),
    ],
)
def test_a_url_names_servers(url: str, expected: list[tuple[str, bool]]) -> None:
    assert servers(url) == tuple(expected)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "there is no host"),
        ("  ", "there is no host"),
        ("headrace://", "there is no host"),
        ("headrace://u:p@", "there is no host"),
        ("a,,b", "has no host"),
        (":8090", "has no host"),
        ("a b:1", "has no host"),
        ("a:0", "'0' is no port"),
        ("a:65536", "'65536' is no port"),
        ("a:", "'' is no port"),
        ("a:x", "'x' is no port"),
        ("a:-1", "'-1' is no port"),
        ("a:\uff18\uff10", "is no port"),
        ("::1", r"an IPv6 address is written \[::1\]:8090"),
        ("[::1:8090", "an IPv6 address is written"),
        ("headrace://a/path", "/path is a path"),
        ("http://a", "http:// is none of .*HTTP is another interface"),
        ("kafka://a", "kafka:// is none of headrace://, headrace\\+tls://"),
        ("headrace+tls://a", "TLS needs"),
        ("headrace+wss://a", "TLS needs"),
        ("headrace+tls://a?ca=f&verify=no", "TLS needs"),
        ("headrace+tls://a?verify=yes", "verify=yes is not known"),
        ("headrace+tls://a?ca=", "'' is no value of the option 'ca'"),
        ("headrace+tls://a?ca=f&ca=g", "'ca' is given twice"),
        ("headrace+tls://a?cert=f", "'cert' is none of the options ca, name, verify"),
        ("headrace://a?ca=f", "headrace:// has no option 'ca': it is not encrypted"),
        ("headrace+ws://a?verify=no", "not encrypted"),
        ("headrace+embedded://host/path", "no host"),
        ("headrace+embedded:///path?x=1", "no options"),
    ],
)
def test_a_url_that_cannot_be_understood_is_refused(url: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        address_of(url, environment=CREDENTIALS)


@pytest.mark.parametrize(
    "url",
    [
        "headrace://anna:hush/hush@a",
        "headrace://anna:hush?hush@a",
        "headrace://anna:hush@a:port/hush@b",
        "anna:hush@a:8090",
        "headrace+embedded://anna:hush/hush@a",
        "anna:hush://a@b",
    ],
)
def test_no_part_of_a_password_is_in_an_error(url: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        address_of(url)
    assert "hush" not in str(refused.value)


def test_credentials_of_the_url_are_decoded() -> None:
    found = address_of("headrace://an%40na:p%2F%3A%3F%40ss@a", environment={})
    assert (found.username, found.password) == ("an@na", "p/:?@ss")
    assert address_of("headrace://anna:a:b@a", environment={}).password == "a:b"


def test_arguments_win_over_the_url_and_the_url_over_the_environment() -> None:
    url = "headrace://url:url-password@a"
    both = address_of(url, username="argument", password="argument-password", environment=CREDENTIALS)
    assert (both.username, both.password) == ("argument", "argument-password")
    found = address_of(url, environment=CREDENTIALS)
    assert (found.username, found.password) == ("url", "url-password")
    found = address_of("headrace://url@a", environment=CREDENTIALS)
    assert (found.username, found.password) == ("url", "secret")
    found = address_of("a", environment=CREDENTIALS)
    assert (found.username, found.password) == ("anna", "secret")


def test_the_environment_gives_the_server() -> None:
    assert address_of(None, environment=CREDENTIALS | {"HEADRACE_SERVER": "b:1"}).servers == (("b:1", False),)
    assert address_of(None, environment=CREDENTIALS).servers == (("127.0.0.1:8090", False),)
    assert address_of(None, environment=CREDENTIALS | {"HEADRACE_SERVER": ""}).servers == (("127.0.0.1:8090", False),)


def test_a_token_replaces_username_and_password() -> None:
    found = address_of("headrace://u:p@a", token="t", environment=CREDENTIALS)
    assert (found.token, found.username, found.password) == ("t", None, None)
    found = address_of("a", environment=CREDENTIALS | {"HEADRACE_TOKEN": "e"})
    assert (found.token, found.username) == ("e", None)
    # The URL wins over the environment.
    found = address_of("headrace://u:p@a", environment={"HEADRACE_TOKEN": "e"})
    assert (found.token, found.username) == (None, "u")
    for given in ({"username": "u"}, {"password": "p"}):
        with pytest.raises(InvalidArgument, match="token: it replaces username and password"):
            address_of("a", token="t", environment={}, **given)


def test_missing_credentials_are_named() -> None:
    with pytest.raises(InvalidArgument, match=r"username: there is none.*HEADRACE_USERNAME"):
        address_of("a", environment={})
    with pytest.raises(InvalidArgument, match=r"password: there is none.*HEADRACE_PASSWORD"):
        address_of("headrace://anna@a", environment={})


def test_an_embedded_server_has_a_directory_and_credentials_of_its_own() -> None:
    # A token in the environment is one of another server.
    found = address_of("headrace+embedded:///my%20data", environment=CREDENTIALS | {"HEADRACE_TOKEN": "e"})
    assert found == Address(embedded=Path("/my data"))
    assert address_of("headrace+embedded://", environment={}).embedded == Path()
    found = address_of("headrace+embedded://anna:s%2Fecret@/data", environment={})
    assert (found.username, found.password, found.embedded) == ("anna", "s/ecret", Path("/data"))
    with pytest.raises(InvalidArgument, match="an embedded server has none yet"):
        address_of("headrace+embedded://", token="t", environment={})


def test_an_address_is_printed_without_secrets() -> None:
    text = repr(address_of("headrace://anna:hush@a", environment={}))
    assert "anna" in text
    assert "hush" not in text
    assert "hush" not in repr(address_of("a", token="hush", environment={}))


def test_plain_text_to_another_machine_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    url = "headrace://ann:hidden@db.example.org:1,db.example.org:2,[2001:db8::1]:3,127.0.0.2:4,[::1]:5,localhost:6"
    for text in (url, url, "headrace+ws://ann:hidden@db.example.org", "headrace+tls://ann:hidden@other?verify=no"):
        session_config(address_of(text), ClientOptions())
    hosts = [record.args[0] for record in caplog.records if isinstance(record.args, tuple)]
    assert hosts == ["db.example.org", "2001:db8::1"]
    assert "hidden" not in caplog.text
