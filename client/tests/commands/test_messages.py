"""Wrong inputs, and the whole message that each gets: what was wrong, where, and what to do."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from tests import command_line
from tests.command_line.shell import Shell

from headrace_embedded import Server

FAILED = 1
WRONG_USAGE = 2


@pytest.fixture(scope="module")
def shop(server: Server) -> Shell:
    """Streams shop and 42, which has the id of none; in shop, orders with two partitions, and a group."""
    headrace = Shell(server)
    headrace("stream", "create", "shop")
    headrace("stream", "create", "webshop")
    headrace("stream", "create", "42")
    headrace("topic", "create", "shop", "orders", "--partitions", "2")
    headrace("topic", "create", "shop", "single")
    headrace("group", "create", "shop", "orders", "billing")
    return headrace


USAGE = [
    (("frobnicate",), "there is no command 'frobnicate': there are up, ping, ", "headrace"),
    (("tpic",), "there is no command 'tpic': did you mean topic?", "headrace"),
    (("consume", "shop", "orders"), "there is no command 'consume': did you mean poll or poll --follow?", "headrace"),
    (("produce", "shop"), "there is no command 'produce': did you mean send?", "headrace"),
    (("lag",), "there is no command 'lag': did you mean group list or group lag?", "headrace"),
    (("topic", "describe"), "there is no command 'describe': did you mean show?", "headrace topic"),
    (
        ("topic", "create", "shop", "t", "--retention", "1 d"),
        "there is no option --retention: did you mean --message-expiry or --max-size?",
        "headrace topic create",
    ),
    (
        ("poll", "shop", "orders", "--from-beginning"),
        "there is no option --from-beginning: did you mean --from first?",
        "headrace poll",
    ),
    (
        ("-s", "127.0.0.1", "config", "check"),
        "there is no option --server: did you mean --service?",
        "headrace config check",
    ),
    (("--token", "x"), "a command is missing after the options", "headrace"),
    (("topic", "craete"), "there is no command 'craete': did you mean create?", "headrace topic"),
    (("topic", "create", "shop"), "NAME is missing", "headrace topic create"),
    (("poll",), "STREAM is missing", "headrace poll"),
    (
        ("poll", "shop", "orders", "--cuont", "3"),
        "there is no option --cuont: did you mean --count or --context or --until?",
        "headrace poll",
    ),
    (("poll", "shop", "orders", "--count", "zero"), "--count: 'zero' is not a whole number", "headrace poll"),
    (
        ("poll", "shop", "orders", "-n", "-1"),
        "--count: -1 is not in the range from 0 to 4,294,967,295",
        "headrace poll",
    ),
    (("poll", "shop", "orders", "-n"), "option '-n' requires an argument", "headrace poll"),
    (
        ("poll", "shop", "orders", "--from", "yesterday"),
        (
            "--from: 'yesterday' is not a position: give next, first, last, an offset such as 42, or a time such as "
            "2026-01-31T12:00"
        ),
        "headrace poll",
    ),
    (
        ("poll", "shop", "orders", "--from", "18446744073709551616"),
        "--from: 18446744073709551616 is larger than any offset",
        "headrace poll",
    ),
    (
        ("poll", "shop", "orders", "-p", "x"),
        "--partition: 'x' is not a partition: give a number, or ranges such as 0-3,7",
        "headrace poll",
    ),
    (
        ("poll", "shop", "orders", "-p", "3-1"),
        "--partition: '3-1' is not a range: it ends before it begins",
        "headrace poll",
    ),
    (
        ("poll", "shop", "orders", "-p", "0-5000"),
        "--partition: '0-5000' has more partitions than a topic can have (1,000)",
        "headrace poll",
    ),
    (
        ("poll", "shop", "orders", "--grep", "("),
        "--grep: '(' is not a regular expression: missing ), unterminated subpattern at position 0",
        "headrace poll",
    ),
    (
        ("poll", "shop", "orders", "--header", "region"),
        "--header: 'region' is not a header: give name=value",
        "headrace poll",
    ),
    (
        ("poll", "shop", "orders", "--header", "region=a\udcff"),
        "--header: 'region=a\\udcff' is not UTF-8, which headers are",
        "headrace poll",
    ),
    (
        ("send", "shop", "orders", "a", "--header", "a\udcff=b"),
        "--header: 'a\\udcff=b' is not UTF-8, which headers are",
        "headrace send",
    ),
    (
        ("poll", "shop", "orders", "--format", "%o %q"),
        "--format: there is no field %q: see --help, and write %% for a percent sign",
        "headrace poll",
    ),
    (
        ("poll", "shop", "orders", "--json", "-o", "raw"),
        "--output, --format and --json exclude each other: give one of them",
        "headrace poll",
    ),
    (
        ("poll", "shop", "orders", "--group", "g", "--from", "first"),
        (
            "a member of a group reads its assigned partitions after the group's stored offsets: --group excludes "
            "--partition, --consumer, --from and --no-commit"
        ),
        "headrace poll",
    ),
    (
        ("send", "shop", "orders", "a", "--file", "f"),
        "give messages as arguments, or --file or --whole, not both",
        "headrace send",
    ),
    (
        ("send", "shop", "orders", "a", "-p", "0", "-k", "k"),
        "--partition and --key exclude each other",
        "headrace send",
    ),
    (("send", "shop", "orders", "a", "--batch", "0"), "--batch: 0 is not in the range from 1 to 4,294,967,295", "send"),
    (
        ("topic", "create", "shop", "t", "--partitions", "0"),
        "--partitions: 0 is not in the range from 1 to 1,000",
        "headrace topic create",
    ),
    (
        ("topic", "create", "shop", "t", "--max-size", "10GBX"),
        (
            "--max-size: '10GBX' is not a size: 'GBX' is not a unit of size; give a size such as \"10 GiB\", or "
            '"unlimited"'
        ),
        "headrace topic create",
    ),
    (
        ("topic", "create", "shop", "t", "--message-expiry", "soon"),
        "--message-expiry: 'soon' is not a duration: ",
        "headrace topic create",
    ),
    (
        ("topic", "update", "shop", "orders"),
        "there is nothing to change: give --name, --message-expiry or --max-size",
        "headrace topic update",
    ),
    (
        ("stream", "create", ""),
        "NAME: the name of a stream has 1 to 255 bytes; this one has 0",
        "headrace stream create",
    ),
    (("stream", "create", "a\udcff"), "NAME: 'a\\udcff' is not UTF-8, which names are", "headrace stream create"),
    (
        ("stream", "create", "x" * 300),
        "NAME: the name of a stream has 1 to 255 bytes; this one has 300",
        "headrace stream create",
    ),
    (
        ("stream", "list", "--output", "xml"),
        "--output: 'xml' is not one of 'table', 'json', 'yaml'.",
        "headrace stream list",
    ),
    (
        ("ping", "-s", "http://127.0.0.1:3000"),
        (
            "--server: 'http://127.0.0.1:3000' is a URL: give host:port of the binary protocol, such as 127.0.0.1:8090 "
            "(tls://host:port for TLS)"
        ),
        "headrace ping",
    ),
    (
        ("ping", "-s", "localhost:http"),
        "--server: 'http' is not a port: give host:port with a port from 1 to 65535",
        "headrace ping",
    ),
    (
        ("ping", "-s", "localhost:99999"),
        "--server: '99999' is not a port: give host:port with a port from 1 to 65535",
        "headrace ping",
    ),
    (("ping", "-s", ":8090"), "--server: ':8090' has no host: give host:port", "headrace ping"),
    (
        ("ping", "-s", "::1"),
        "--server: '::1' is ambiguous: give an IPv6 address in brackets, such as [::1]:8090",
        "headrace ping",
    ),
    (
        ("stream", "list", "--token", "t"),
        "--token and --username (or their variables) exclude each other: give one of them",
        "headrace stream list",
    ),
    (
        ("audit", "--since", "soon"),
        "--since: 'soon' is not a time in ISO 8601: give a time such as 2026-11-23T05:00:00Z",
        "headrace audit",
    ),
]

REFUSALS = [
    (("send", "shop", "orders", "x", "--key", ""), "line 1: key: it has 0 bytes, 1 to 255 are allowed"),
    (("send", "shop", "orders", "a", "b", "-H", "k="), "headers[0].value: it has 0 bytes, 1 to 255 are allowed"),
    (("topic", "list", "nosuch"), "there is no stream 'nosuch' (there are: shop, webshop, 42)"),
    (("poll", "nosuch", "orders"), "there is no stream 'nosuch' (there are: shop, webshop, 42)"),
    (("send", "nosuch", "orders", "hello"), "there is no stream 'nosuch' (there are: shop, webshop, 42)"),
    (("group", "list", "nosuch", "t"), "there is no stream 'nosuch' (there are: shop, webshop, 42)"),
    (("topic", "delete", "nosuch", "t", "--yes"), "there is no stream 'nosuch' (there are: shop, webshop, 42)"),
    (("stream", "delete", "nosuch", "--yes"), "there is no stream 'nosuch' (there are: shop, webshop, 42)"),
    (("poll", "shop", "nosuch"), "there is no topic 'nosuch' in stream 'shop' (there are: orders, single)"),
    (("send", "shop", "nosuch", "x"), "there is no topic 'nosuch' in stream 'shop' (there are: orders, single)"),
    (
        ("topic", "show", "webshop", "t"),
        "there is no topic 't' in stream 'webshop' (there is none: headrace topic create webshop t)",
    ),
    (("group", "show", "shop", "orders", "x"), "there is no group 'x' in shop/orders (there is: billing)"),
    (("poll", "shop", "orders", "--group", "x"), "there is no group 'x' in shop/orders (there is: billing)"),
    (("poll", "shop", "orders", "-p", "99"), "shop/orders has partitions 0 to 1, not 99"),
    (("poll", "shop", "orders", "-p", "0-2"), "shop/orders has partitions 0 to 1, not 2"),
    (("poll", "shop", "single", "-p", "1"), "shop/single has partition 0, not 1"),
    (("send", "shop", "orders", "x", "-p", "99"), "shop/orders has partitions 0 to 1, not 99"),
    (("partition", "remove", "shop", "orders", "3", "--yes"), "shop/orders has 2 partitions, not 3"),
    (("stream", "create", "shop"), "there is a stream 'shop' already"),
    (("topic", "create", "shop", "orders"), "there is a topic 'orders' in stream 'shop' already"),
    (("group", "create", "shop", "orders", "billing"), "there is a group 'billing' in shop/orders already"),
    (
        ("topic", "create", "shop", "t", "--max-size", "1"),
        "--max-size: 1 B is less than one segment (1 GiB, or what the server sets as segment size): give at least that",
    ),
    (
        ("stream", "delete", "shop"),
        "without a terminal to ask on, this does not delete stream 'shop' with 2 topics and 0 messages: add --yes",
    ),
    (
        ("topic", "delete", "shop", "orders"),
        "without a terminal to ask on, this does not delete topic shop/orders with 0 messages: add --yes",
    ),
    (
        ("client", "disconnect", "4294967295"),
        "there is no client 4294967295: `headrace client list` shows those there are",
    ),
    (
        ("send", "shop", "orders", "--file", "/nowhere/f"),
        "--file: /nowhere/f cannot be read: No such file or directory",
    ),
    (("stats", "--password", "wrong"), "the server does not know user '{user}' with this password"),
    (("ping", "-s", "127.0.0.1:1"), "no server listens at 127.0.0.1:1: is it running? `headrace up` starts one"),
    (("ping", "-s", "nosuch.invalid"), "the host name in nosuch.invalid:8090 is not known: check the name"),
]


@pytest.mark.parametrize(("arguments", "message", "path"), USAGE, ids=lambda value: str(value)[:40])
def test_wrong_usage(shop: Shell, arguments: tuple[str, ...], message: str, path: str) -> None:
    result = shop.run(*arguments)
    first, advice = result.stderr.decode().splitlines()
    assert first.startswith(f"error: {message}")
    # Some end with a list that would have to be repeated here.
    assert message.endswith((" ", ": ")) or first == f"error: {message}"
    assert path in advice
    assert advice.endswith("--help` shows what there is")
    assert (result.returncode, result.stdout) == (WRONG_USAGE, b"")


@pytest.mark.parametrize(("arguments", "message"), REFUSALS, ids=lambda value: str(value)[:40])
def test_a_failure(shop: Shell, arguments: tuple[str, ...], message: str) -> None:
    result = shop.run(*arguments)
    expected = message.replace("{user}", shop.login["HEADRACE_USERNAME"])
    assert result.stderr.decode() == f"error: {expected}\n"
    assert (result.returncode, result.stdout) == (FAILED, b"")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "line 2 is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"7", 'line 2 is not a JSON object: give {"payload": ...}'),
        (b"{}", "line 2 has no payload: give payload or payload_base64"),
        (b'{"payload": "x", "key": 7}', "line 2: key is not text"),
        (
            b'{"payload": "x", "partition": "a"}',
            "line 2: partition is not a whole number from 0 to 4,294,967,295",
        ),
        (
            b'{"payload": "x", "partition": 5000000000}',
            "line 2: partition is not a whole number from 0 to 4,294,967,295",
        ),
        (b'{"payload": "x", "headers": []}', "line 2: headers is not an object of names and values"),
        (
            b'{"payload": "x", "headers": {"a": null}}',
            "line 2: header 'a' is neither text nor a number nor true or false",
        ),
        (b'{"payload": "x", "user_headers": 7}', "line 2: user_headers is not text"),
        (
            b'{"payload": "x", "headers": {}, "user_headers": ""}',
            "line 2: headers and user_headers exclude each other",
        ),
        (
            '{"payload_base64": "\u00e9"}'.encode(),
            "line 2: payload_base64 is not base64: string argument should contain only ASCII characters",
        ),
        (b'{"payload_base64": "eA"}', "line 2: payload_base64 is not base64: Incorrect padding"),
        (
            rb'{"payload": "tea \ud83d"}',
            r"line 2: payload has '\ud83d', half of a character: give both halves, or payload_base64 for bytes",
        ),
        (
            rb'{"payload": ["\ud83d"]}',
            r"line 2: payload has '\ud83d', half of a character: give both halves, or payload_base64 for bytes",
        ),
        (
            rb'{"payload": "x", "key": "\udc00"}',
            r"line 2: key has '\udc00', half of a character: give both halves, or key_base64 for bytes",
        ),
        (
            b'{"payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            "line 2 is too deeply nested: give the payload as text that contains it, or as payload_base64",
        ),
    ],
)
def test_lines_that_are_no_messages(shop: Shell, line: bytes, message: str) -> None:
    result = shop.run("send", "shop", "orders", "--json-lines", stdin=b'{"payload": "first"}\n' + line + b"\n")
    assert result.stderr.decode() == f"error: {message}\n"
    assert result.returncode == FAILED


def test_a_name_that_is_also_an_id(shop: Shell) -> None:
    """The stream 42 can be used by its name; if its name is the id of another one, neither is guessed."""
    assert "'42'" in shop.run("stream", "delete", "42").stderr.decode()
    shop("stream", "create", "0")
    refused = shop.run("stream", "delete", "0", "--yes")
    *_, last = shop("stream", "list").splitlines()
    new_id = last.split()[0]
    assert refused.stderr.decode() == (
        f"error: '0' is the id of stream 'shop' and the name of stream {new_id}: give id:0 or name:0\n"
    )
    assert (
        shop.run("stream", "delete", "name:0", "--yes").stderr == b"deleted stream '0' with 0 topics and 0 messages\n"
    )


def test_without_credentials_or_terminal(shop: Shell) -> None:
    without_user = shop.run("stats", logged_in=False)
    assert without_user.returncode == WRONG_USAGE
    assert without_user.stderr.decode() == (
        "error: no user to log in as: set HEADRACE_USERNAME and HEADRACE_PASSWORD, or HEADRACE_TOKEN, or add a context "
        "(headrace context add --help)\n"
    )
    no_password = shop.run("stats", "--username", "ann", logged_in=False)
    assert no_password.returncode == WRONG_USAGE
    assert no_password.stderr.decode() == (
        "error: no password for ann: set HEADRACE_PASSWORD, because there is no terminal to ask on\n"
    )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (b"\x00\x00\x18\x04\x00\x00\x00\x00\x00" + b"\x00" * 24, "HTTP/2, as of gRPC"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "TLS: use tls://{address}?ca=FILE for a listener with TLS"),
    ],
)
def test_another_protocol_at_the_address(answer: bytes, words: str) -> None:
    with listener(answer) as address:
        for command in (("ping",), ("stream", "list")):
            result = command_line.run(*command, environment={"HEADRACE_SERVER": address, "HEADRACE_TOKEN": "t"})
            assert result.stderr.decode() == (
                f"error: {address} does not speak the binary protocol, but {words.replace('{address}', address)}; the "
                "usual port of the binary protocol is 8090\n"
            )
            assert result.returncode == FAILED


class listener:  # noqa: N801 - a context manager, in the way of those of the standard library
    """Answers whatever it receives with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> str:
        self._thread.start()
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(self._answer)


def test_what_cannot_be_sent(shop: Shell, tmp_path: Path) -> None:
    file = tmp_path / "large"
    with file.open("wb") as opened:
        opened.truncate(65_000_000)
    result = shop.run("send", "shop", "orders", "--file", str(file), "--whole")
    assert result.stderr == b"error: line 1: the payload is 65000000 B, limit 64000000 B\n"
    result = shop.run("poll", "shop", "\udcff")
    assert result.stderr == b"error: '\\udcff' is not UTF-8, which names are\n"
    assert result.returncode == WRONG_USAGE


def test_empty_lines_are_counted(shop: Shell) -> None:
    result = shop.run("send", "shop", "single", stdin=b"a\n\nb\n\n")
    assert result.stderr.decode() == (
        "sent 2 messages; skipped 2 empty lines (the first is line 2): --keep-empty sends them\n"
    )
    kept = shop.run("send", "shop", "single", "--keep-empty", stdin=b"\nc\n")
    assert (kept.returncode, kept.stderr) == (0, b"sent 2 messages\n")
    assert shop("poll", "shop", "single", "--from", "2", "-o", "raw") == "\nc\n"
