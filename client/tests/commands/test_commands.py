"""Commands against a running server."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests import command_line
from tests.command_line.schemas import validate
from tests.command_line.shell import Shell

from headrace_embedded import Server


def test_ping_needs_no_login(headrace: Shell) -> None:
    result = headrace.run("ping", "--count", "2", logged_in=False)
    assert result.stdout.decode().count("responded in") == 2


def test_several_pings_end_with_a_summary(headrace: Shell) -> None:
    *pings, summary = headrace("ping", "--count", "3").splitlines()
    shortest, median, longest = sorted(float(line.split()[-2]) for line in pings)
    assert summary == f"minimum {shortest:.3f} ms, median {median:.3f} ms, maximum {longest:.3f} ms"


def test_a_single_ping_has_no_summary(headrace: Shell) -> None:
    assert len(headrace("ping").splitlines()) == 1


def test_the_installed_program(headrace: Shell, topic: tuple[str, str]) -> None:
    """Runs in a process of its own, with pipes and an exit status; the other tests run commands in-process."""
    with headrace.start("send", *topic, "-p", "0") as process:
        assert process.communicate(b"from\na pipe\n", timeout=60) == (b"", b"sent 2 messages\n")
        assert process.returncode == 0
    with headrace.start("poll", *topic, "--from", "first", "-o", "raw") as process:
        assert process.communicate(timeout=60) == (b"from\na pipe\n", b"")
        assert process.returncode == 0
    with headrace.start("topic", "delete", "nowhere", "t") as process:
        printed, errors = process.communicate(timeout=60)
        assert (printed, process.returncode) == (b"", 1)
        assert errors.startswith(b"error: there is no stream 'nowhere'")


def test_options_of_the_server_may_stand_in_front(headrace: Shell) -> None:
    """Other programs permit it; the last one that is given wins."""
    address, login = headrace.environment["HEADRACE_SERVER"], headrace.login
    front = ("-s", address, f"--username={login['HEADRACE_USERNAME']}", "--password", login["HEADRACE_PASSWORD"])
    elsewhere = {"HEADRACE_SERVER": "127.0.0.1:1"}
    for command in (("stats", "--json"), ("stream", "list", "--json"), ("topic", "list")):
        result = command_line.run(*front, *command, environment=headrace.environment | elsewhere)
        assert result.returncode == 0, result.stderr
    away = command_line.run(*front, "stats", "-s", "127.0.0.1:1", environment=headrace.environment)
    assert b"no server listens at 127.0.0.1:1" in away.stderr
    attached = command_line.run(f"-s{address}", "ping", environment=headrace.environment | elsewhere)
    assert attached.returncode == 0


def test_streams_and_topics(headrace: Shell) -> None:
    created = json.loads(headrace("stream", "create", "shop", "--json"))
    assert created["name"] == "shop"
    headrace("topic", "create", "shop", "orders", "-p", "3", "--expiry", "7 days", "--max-size", "10 GiB")
    headrace("topic", "create", str(created["id"]), "returns")
    topics = json.loads(headrace("topic", "list", "shop", "--json"))
    assert [(topic["name"], topic["partitions_count"]) for topic in topics] == [("orders", 3), ("returns", 1)]
    assert topics[0]["message_expiry_micros"] == 7 * 86_400 * 1_000_000
    assert topics[0]["max_size_bytes"] == 10 * 2**30
    assert (topics[0]["message_expiry"], topics[0]["max_size"]) == ("7 d", "10 GiB")
    unbounded = [topics[1][name] for name in ("message_expiry_micros", "message_expiry", "max_size_bytes", "max_size")]
    assert unbounded == [None, "never", None, "unlimited"]
    at = datetime.fromisoformat(topics[0]["created_at"])
    assert (at - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) == topics[0]["created_at_micros"]
    assert "orders" in headrace("topic", "list", "shop")
    assert len(json.loads(headrace("topic", "show", "shop", "orders", "--json"))["partitions"]) == 3
    headrace("topic", "delete", "shop", "orders", "--yes")
    headrace("stream", "delete", "shop", "--yes")
    assert "shop" not in headrace("stream", "list")


def test_send_arguments_and_poll_them(headrace: Shell, topic: tuple[str, str]) -> None:
    headrace("send", *topic, "one", "zwei", "três", "--partition", "1")
    lines = headrace("poll", *topic, "--partition", "1", "--from", "first").splitlines()
    assert [line.split()[0] for line in lines] == ["1:0", "1:1", "1:2"]
    assert [line.split()[-1] for line in lines] == ["one", "zwei", "três"]


def test_send_lines_and_read_the_last(headrace: Shell, topic: tuple[str, str]) -> None:
    headrace("send", *topic, "-p", "0", "--batch", "7", stdin=b"".join(b"%d\n" % number for number in range(100)))
    assert headrace("poll", *topic, "--from", "last", "-n", "3", "-o", "raw") == "97\n98\n99\n"
    assert headrace("poll", *topic, "--from", "42", "-n", "2", "-o", "raw") == "42\n43\n"


def test_send_a_file_whole(headrace: Shell, topic: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "blob"
    file.write_bytes(b"\xff\x00\nsecond line\n")
    headrace("send", *topic, "--file", str(file), "--whole", "-p", "0")
    message = json.loads(headrace("poll", *topic, "--from", "first", "-o", "json"))
    assert message["payload_base64"] == "/wAKc2Vjb25kIGxpbmUK"


def test_next_goes_on_where_the_last_commit_was(headrace: Shell, topic: tuple[str, str]) -> None:
    """LOG-10: consumer offsets are stored."""
    headrace("send", *topic, "a", "b", "c", "-p", "0")
    arguments = ("poll", *topic, "-p", "0", "-n", "2", "-o", "raw", "--consumer", "me", "--commit")
    assert headrace(*arguments) == "a\nb\n"
    assert headrace(*arguments) == "c\n"
    assert headrace(*arguments) == ""


def test_a_moment_as_a_start(headrace: Shell, topic: tuple[str, str]) -> None:
    headrace("send", *topic, "now", "-p", "0")
    assert headrace("poll", *topic, "--from", "2020-01-01", "-o", "raw") == "now\n"
    assert headrace("poll", *topic, "--from", "2100-01-01", "-o", "raw") == ""


def test_follow_prints_what_arrives(headrace: Shell, topic: tuple[str, str]) -> None:
    headrace("send", *topic, "before", "-p", "1")
    with headrace.start("poll", *topic, "--follow", "-o", "raw") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"before\n"
        headrace("send", *topic, "after", "-p", "0")
        assert process.stdout.readline() == b"after\n"
        process.terminate()


def test_the_same_key_goes_to_the_same_partition(headrace: Shell, topic: tuple[str, str]) -> None:
    for text in ("1", "2", "3"):
        headrace("send", *topic, text, "--key", "customer-17")
    partitions = json.loads(headrace("topic", "show", *topic, "--json"))["partitions"]
    assert sorted(partition["messages_count"] for partition in partitions) == [0, 3]


def test_statistics(headrace: Shell) -> None:
    assert json.loads(headrace("stats", "--json"))["process_id"] > 0
    assert "process id" in headrace("stats")


@pytest.mark.parametrize("mode", ["produce", "both"])
def test_bench(headrace: Shell, mode: str) -> None:
    load = ("--producers", "2", "--consumers", "2", "--count", "20", "--batch", "100", "--warm-up", "0")
    report = json.loads(headrace("bench", mode, *load, "--fresh", "--delete", "--json"))
    validate("bench", report)
    assert report["producers"]["messages"] == 2 * 20 * 100
    assert "password" not in report["config"]


def test_bench_with_an_access_token(headrace: Shell) -> None:
    token = json.loads(headrace("token", "create", "bench", "--json"))["token"]
    load = ("--producers", "1", "--count", "5", "--warm-up", "0", "--fresh", "--delete", "--baseline", "null", "--json")
    result = headrace.run("bench", *load, "--token", token, logged_in=False)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    validate("bench-baseline", report)
    assert report["server"]["producers"]["requests"] == 5
    assert token not in result.stdout.decode()


def test_bench_beside_the_null_listener(headrace: Shell) -> None:
    load = ("--producers", "1", "--count", "50", "--warm-up", "0")
    shown = headrace("bench", "produce", *load, "--fresh", "--delete", "--baseline", "null")
    assert "null listener" in shown
    assert "p99.99 (ms)" in shown
    assert "per GB" in shown


def test_bench_asks_before_it_deletes(headrace: Shell, topic: tuple[str, str]) -> None:
    headrace("send", *topic, "mine", "-p", "0")
    load = ("--producers", "1", "--count", "1", "--batch", "1", "--warm-up", "0", "--stream", topic[0])
    for option in ("--fresh", "--delete"):
        refused = headrace.run("bench", *load, option)
        assert refused.returncode == 1
        assert refused.stderr.decode() == (
            f"error: without a terminal to ask on, this does not delete stream {topic[0]!r} with 1 topic and 1 "
            "message: add --yes\n"
        )
        assert headrace("poll", *topic, "--from", "first", "-o", "raw") == "mine\n"
    headrace("bench", *load, "--fresh", "--yes", "--json")
    assert [one["name"] for one in json.loads(headrace("topic", "list", topic[0], "--json"))] == ["bench"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("topic", "list", "nowhere"), "there is no stream 'nowhere'"),
        (("topic", "list", "4000"), "there is no stream '4000'"),
        (("stats", "--password", "wrong"), "with this password"),
    ],
)
def test_refusals_are_one_message(headrace: Shell, arguments: tuple[str, ...], message: str) -> None:
    result = headrace.run(*arguments)
    text = " ".join(result.stderr.decode().split())
    assert "Traceback" not in text
    assert result.returncode != 0
    assert message in text


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Address of a listener that reads a request, and answers with these bytes."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.wfile.write(answer)

        def log_message(self, *arguments: object) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


UNREACHED = "the HTTP API at {url} cannot be reached: {why}; give its address with --url or HEADRACE_URL"
ANOTHER = "{url} is not the address of the HTTP API: give it with --url or HEADRACE_URL"


@pytest.mark.parametrize(
    ("answer", "message", "why"),
    [
        (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + b"\x00" * 18, UNREACHED, "the answer is not HTTP"),
        (b"", UNREACHED, "Remote end closed connection without response"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", UNREACHED, "the answer breaks off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", ANOTHER, ""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", ANOTHER, ""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", ANOTHER, ""),
    ],
)
def test_another_service_at_the_url(headrace: Shell, answer: bytes, message: str, why: str) -> None:
    with answering(answer) as url:
        result = headrace.run("cluster", "status", "--url", url)
        expected = message.replace("{url}", url).replace("{why}", why)
        assert (result.returncode, result.stderr.decode()) == (1, f"error: {expected}\n")


def test_a_url_that_is_none(headrace: Shell) -> None:
    result = headrace.run("cluster", "status", "--url", "http://127.0.0.1:30o0")
    expected = UNREACHED.replace("{url}", "http://127.0.0.1:30o0").replace("{why}", "nonnumeric port: '30o0'")
    assert (result.returncode, result.stderr.decode()) == (1, f"error: {expected}\n")


def test_a_ticket_stands_before_the_address(headrace: Shell) -> None:
    """Tickets are for partition nodes: this server accepts none, and the ticket is not printed."""
    server = f"hrt1.signed@{headrace.environment['HEADRACE_SERVER']}"
    result = headrace.run("poll", "s", "t", "-p", "0", "--server", server, logged_in=False)
    text = result.stderr.decode()
    assert result.returncode == 1
    assert "20202 (InvalidTicket)" in text
    assert "hrt1" not in text


def test_without_credentials(headrace: Shell) -> None:
    result = headrace.run("stats", logged_in=False)
    assert result.returncode == 2
    assert "HEADRACE_USERNAME" in result.stderr.decode()


def test_what_retention_has_removed_shows(driver: dict[str, str]) -> None:
    """Retention shows in the first kept offset, the time of the next deletion, and the gap of a lagging consumer."""
    with Server(settings=driver | {"data_maintenance.messages.interval": "1 s"}) as server:
        headrace = Shell(server)
        headrace("stream", "create", "s")
        headrace("topic", "create", "s", "t", "--message-expiry", "2 s")
        headrace("send", "s", "t", "-p", "0", stdin=b"0\n1\n2\n")
        began = time.monotonic()

        def shown() -> tuple[int, int, int | None]:
            partition = json.loads(headrace("topic", "show", "s", "t", "--json"))["partitions"][0]
            assert partition["state"] == "serving"
            deletion = partition["next_deletion_at_micros"]
            assert deletion is None or deletion > partition["created_at_micros"]
            return partition["first_offset"], partition["messages_count"], deletion

        # Counts and times come from two commands: a deletion between them shows in the times alone.
        first_offset, _, next_deletion_at_micros = shown()
        assert first_offset in (0, 3)
        assert (next_deletion_at_micros is not None) == (first_offset == 0)
        while (found := shown()) != (3, 0, None):
            assert time.monotonic() - began < 60, found
            time.sleep(0.05)
        header = headrace("topic", "show", "s", "t")
        assert "first offset" in header
        assert "next deletion" in header
        read = headrace.run("poll", "s", "t", "--from", "1")
        assert (read.returncode, read.stdout) == (0, b"")
        assert read.stderr == b"partition 0: the messages from offset 1 to 2 were removed before they could be read\n"
