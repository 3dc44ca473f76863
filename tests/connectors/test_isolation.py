"""CON-51: a connector in a process of its own, whose death or blocked loop reaches no other connector."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import psutil
import pytest

import headrace
from tests.connectors.process import Connectors, until
from tests.sdk.conftest import url_of
from tests.server_process import ServerProcess

PLUGIN = """
import os
import pickle
import socket
import sys
import time

from headrace_connectors.contract import (
    Batch, Cdc, Record, Settings, Source, Unavailable, decode_state, encode_state
)


class OddSettings(Settings):
    exits_at: int = -1
    blocks_at: int = -1
    pickles: bool = False
    directory: str


class Opens:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


class Odd(Source):
    settings_type = OddSettings

    def __init__(self, settings):
        self.settings, self.next, self.polled = settings, 0, 0

    def mode(self):
        return Cdc()

    async def open(self, state):
        if state is not None:
            self.next = decode_state(state, 1, int)

    async def poll(self):
        if self.settings.pickles:
            data = pickle.dumps(Opens(os.path.join(self.settings.directory, f"opened-by-{os.getppid()}")))
            with socket.socket(fileno=os.dup(int(sys.argv[1]))) as parent:
                parent.sendall(len(data).to_bytes(4, "big") + data)
            time.sleep(60)
        once = os.path.join(self.settings.directory, "once")
        if self.next in (self.settings.exits_at, self.settings.blocks_at) and not os.path.exists(once):
            open(once, "w").close()
            if self.next == self.settings.exits_at:
                os._exit(9)
            while not os.path.exists(os.path.join(self.settings.directory, "go-on")):
                time.sleep(0.01)
        time.sleep(0.01)
        self.polled = self.next + 1
        return Batch([Record({"n": self.next})], encode_state(1, self.polled))

    async def commit(self):
        if os.path.exists(os.path.join(self.settings.directory, "no-commit")):
            raise Unavailable("not now")
        self.next = self.polled

    async def abandon(self):
        if os.path.exists(os.path.join(self.settings.directory, "no-commit")):
            os.remove(os.path.join(self.settings.directory, "no-commit"))
        self.next = self.polled
        return f"position {self.polled}"
"""


class Process(Connectors):
    """Connectors with a plugin in a directory of its own, which only a fresh interpreter finds."""

    popen: subprocess.Popen[bytes] | None = None

    def start(self, pipeline: str, **variables: str) -> None:
        """Start it and wait until it answers."""
        plugins = self.directory / "plugins"
        distribution = plugins / "odd-1.0.dist-info"
        distribution.mkdir(parents=True)
        (plugins / "odd_plugin.py").write_text(PLUGIN, encoding="utf-8")
        (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n", encoding="utf-8")
        entry_points = "[headrace_connectors.v1.sources]\nodd = odd_plugin:Odd\n"
        (distribution / "entry_points.txt").write_text(entry_points, encoding="utf-8")
        self.write(pipeline)
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "headrace_connectors", str(self.file)],
                env=os.environ | {"PYTHONPATH": str(plugins)} | variables,
                stdout=log,
                stderr=log,
            )
        until(lambda: self.answers)

    def document(self, key: str) -> dict[str, Any]:
        """Status of a connector that has a process."""
        return until(lambda: found if (found := self.status(key))["process_id"] is not None else None)

    @property
    def has_ended(self) -> bool:
        return self.popen is None or self.popen.poll() is not None


@pytest.fixture
def process(shared_server: ServerProcess, tmp_path: Path) -> Iterator[Process]:
    found = Process(tmp_path, url_of(shared_server.address))
    yield found
    if found.popen is not None:
        found.popen.kill()
        found.popen.wait()
    sys.stdout.write(found.tail())


def odd(stream: str, directory: Path, settings: str = "") -> str:
    return (
        f'[sources.odd]\nplugin = "odd"\nisolation = "process"\nstream = "{stream}"\ntopic = "odd"\n'
        f'[sources.odd.settings]\ndirectory = "{directory}"\n{settings}\n'
        '[sources.odd.delivery]\nbackoff_min = "5 ms"\nbackoff_max = "20 ms"\n'
    )


def neighbour(stream: str) -> str:
    return (
        f'[sources.calm]\nplugin = "random"\nstream = "{stream}"\ntopic = "calm"\n'
        '[sources.calm.settings]\ninterval = "10 ms"\n'
    )


def numbers(client: headrace.Client, stream: str) -> list[int]:
    try:
        return [json.loads(message.payload)["n"] for message in client.read(stream, "odd", count=10_000)]
    except headrace.NotFound:
        return []


def goes_on(process: Process, key: str) -> None:
    before = process.status(key)["records_count"]
    until(lambda: process.status(key)["records_count"] > before)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.long
def test_a_killed_process_is_started_again_and_nothing_is_lost(
    client: headrace.Client, process: Process, stream: str, tmp_path: Path
) -> None:
    """The source continues after what was saved; status, metrics and destinations come through the parent."""
    process.start(odd(stream, tmp_path) + neighbour(stream))
    goes_on(process, "odd")
    for times in (1, 2):
        pid = process.document("odd")["process_id"]
        assert pid != process.popen.pid
        os.kill(pid, signal.SIGKILL)
        goes_on(process, "calm")
        until(lambda times=times: process.status("odd")["restarts_count"] == times)
        until(lambda pid=pid: process.document("odd")["process_id"] != pid)
        goes_on(process, "odd")
        # A machine that is slow leads to another error afterwards.
        errors = process.status("odd")["errors"]
        assert sum(one["count"] for one in errors if "has ended by signal SIGKILL" in one["message"]) == times
    process.becomes("odd", "running")
    until(lambda: process.metric("headrace_connector_messages_routed_total", connector_key="odd") > 0)
    until(lambda: process.metric("headrace_connector_state", connector_key="odd", state="running") == 1)
    (destination,) = process.get("/connectors/odd/destinations")
    assert (destination["stream"], destination["topic"]) == (stream, "odd")
    history = [change["state"] for change in process.status("calm")["history"]]
    assert history == ["starting", "running"]
    pid = process.document("odd")["process_id"]
    process.popen.terminate()
    assert process.popen.wait(60) == 0
    assert not is_alive(pid)
    found = numbers(client, stream)
    assert set(found) == set(range(max(found) + 1))
    assert len(found) - len(set(found)) <= 2


def test_its_process_has_no_secrets_of_others(process: Process, stream: str, tmp_path: Path) -> None:
    """Regression: the process of one connector had the whole environment, with the passwords of all."""
    pipeline = odd(stream, tmp_path).replace("[sources.odd]\n", '[sources.odd]\nenvironment = ["OWN_*"]\n')
    assert "environment" in pipeline
    process.start(pipeline, PGPASSWORD="of-another", OWN_REGION="here")
    process_id = process.document("odd")["process_id"]
    found = Path(f"/proc/{process_id}/environ").read_bytes().split(b"\0")
    assert b"OWN_REGION=here" in found
    assert b"PGPASSWORD=of-another" not in found
    assert any(one.startswith(b"PATH=") for one in found)


@pytest.mark.long
def test_a_plugin_that_exits_ends_its_process_alone(
    client: headrace.Client, process: Process, stream: str, tmp_path: Path
) -> None:
    """os._exit leaves no time for anything; the source is started again."""
    process.start(odd(stream, tmp_path, "exits_at = 5") + neighbour(stream))
    until(lambda: process.status("odd")["restarts_count"] == 1)
    assert any("has ended with status 9" in error["message"] for error in process.status("odd")["errors"])
    until(lambda: process.status("odd")["records_count"] > 8)
    goes_on(process, "calm")
    found = numbers(client, stream)
    assert set(found) == set(range(max(found) + 1))


@pytest.mark.long
def test_a_plugin_that_blocks_the_loop_is_shown_and_delays_no_other(
    client: headrace.Client, process: Process, stream: str, tmp_path: Path
) -> None:
    """The state is `degraded` until the loop turns again, and a stop ends it in any case."""
    del client
    pipeline = odd(stream, tmp_path, "blocks_at = 5") + neighbour(stream)
    process.start(pipeline.replace("[sources.calm]", "[sources.calm]\nisolation = 'process'"))
    status = process.becomes("odd", "degraded")
    assert status["error_code"] == "blocked"
    assert "blocks its event loop" in status["last_error"]
    goes_on(process, "calm")
    (tmp_path / "go-on").touch()
    process.becomes("odd", "running")
    goes_on(process, "odd")


@pytest.mark.long
def test_calls_reach_its_process_and_answers_come_back(process: Process, stream: str, tmp_path: Path) -> None:
    """A batch is given up there; a source that keeps none refuses with its own reason."""
    more = neighbour(stream).replace("[sources.calm]", "[sources.calm]\nisolation = 'process'", 1)
    process.start(odd(stream, tmp_path) + more)
    goes_on(process, "odd")
    (tmp_path / "no-commit").touch()
    until(lambda: process.status("odd")["last_error"] == "not now")
    answer = process.post("/sources/odd/cdc/abandon-batch")
    assert answer["abandoned"].startswith("position ")
    until(lambda: process.status("odd")["last_abandoned"] == answer["abandoned"])
    goes_on(process, "odd")
    with pytest.raises(HTTPError) as refused:
        process.post("/sources/calm/cdc/abandon-batch")
    assert json.load(refused.value)["code"] == "not_abandonable"


@pytest.mark.long
def test_calls_at_the_same_time_have_an_answer_each(process: Process, stream: str, tmp_path: Path) -> None:
    """Calls wait in the process of the connector while the plugin blocks its loop."""
    process.start(odd(stream, tmp_path, "blocks_at = 5"))
    until((tmp_path / "once").exists)
    with ThreadPoolExecutor() as threads:
        calls = [threads.submit(process.post, "/sources/odd/cdc/abandon-batch") for _ in range(3)]
        time.sleep(1)
        assert not any(call.done() for call in calls)
        (tmp_path / "go-on").touch()
        for call in calls:
            assert call.result(30)["abandoned"].startswith("position ")
    goes_on(process, "odd")


def test_what_it_sends_is_not_run_by_the_parent(process: Process, stream: str, tmp_path: Path) -> None:
    """Regression: a plugin that wrote a pickle to the socket of its process had the parent run what was in it."""
    process.start(odd(stream, tmp_path, "pickles = true") + neighbour(stream))
    failed = until(lambda: found if (found := process.status("odd"))["last_error"] else None)
    assert "has sent what is no message, and is ended" in failed["last_error"]
    assert not list(tmp_path.glob("opened-by-*"))
    goes_on(process, "calm")


def test_its_process_ends_with_the_parent(process: Process, stream: str, tmp_path: Path) -> None:
    """The parent is killed while the plugin blocks its loop: a thread notices."""
    process.start(odd(stream, tmp_path, "blocks_at = 5"))
    until((tmp_path / "once").exists)
    pid = process.document("odd")["process_id"]
    process.popen.kill()
    until(lambda: not is_alive(pid))


@pytest.mark.long
def test_a_connector_that_fails_is_not_started_again(process: Process, stream: str, tmp_path: Path) -> None:
    """The status is that of a connector beside the others; a call starts it again."""
    (tmp_path / "state").mkdir()
    state = {"format": 1, "source": "odd", "plugin": "odd", "state": {"version": 7, "state": 1}}
    (tmp_path / "state" / "odd.state.json").write_text(json.dumps(state), encoding="utf-8")
    process.start(odd(stream, tmp_path) + neighbour(stream))
    status = process.becomes("odd", "error")
    assert status["restarts_count"] == 0
    assert "7" in status["last_error"]
    (tmp_path / "state" / "odd.state.json").unlink()
    process.post("/connectors/odd/start")
    process.becomes("odd", "running")
    assert process.post("/connectors/odd/stop")["state"] == "stopped"
    assert process.status("odd")["process_id"] is None
