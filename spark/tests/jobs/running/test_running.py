"""SPK-3: job framework: arguments, reports, exit codes, signals, metrics; without Spark."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sample_job
from sample_job import JOB, PLAIN

from pyspark_headrace.jobs import main as program
from pyspark_headrace.jobs.running.config import JobConfig, StreamJobConfig, Trigger
from pyspark_headrace.jobs.running.job import DONE, FAILED, FOUND, WRONG_ARGUMENTS
from pyspark_headrace.jobs.running.metrics import Metrics
from pyspark_headrace.jobs.running.streaming import LagClock
from pyspark_headrace.lag import between

SAMPLE = Path(sample_job.__file__)
LEAST = ["--servers", "a:8094,b:8094", "--stream", "shop"]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the jobs of this file, and no others."""
    monkeypatch.setattr(program, "JOBS", {"copy": program.Entry("sample_job", JOB.summary)})


def report_of(stdout: str) -> dict[str, Any]:
    """Parse the report: the last line, and here the only one."""
    (line,) = stdout.splitlines()
    report = json.loads(line)
    assert list(report) == [
        *("job", "name", "status", "started_at", "seconds", "dry_run"),
        *("counts", "details", "findings", "error"),
    ]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", report["started_at"])
    assert report["seconds"] >= 0
    return report


def test_a_job_that_ends_well(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    arguments = ["--name", "first", "-n", "3", "--dry-run", "--report", str(path), "--catalog", "http://u:hunter2@c"]
    assert PLAIN.main(arguments) == DONE
    reported = capfd.readouterr()
    report = report_of(reported.out)
    assert (report["job"], report["name"], report["status"]) == ("plain", "first", "done")
    assert report["dry_run"] is True
    assert report["counts"] == {"steps": 3}
    assert report["error"] is None
    assert path.read_text(encoding="utf-8") == reported.out
    assert list(tmp_path.iterdir()) == [path]
    # All other output is on stderr, where each log line is a JSON object; secrets appear nowhere.
    assert "noise on stdout" in reported.err
    assert "hunter2" not in reported.out + reported.err
    lines = [json.loads(line) for line in reported.err.splitlines() if line.startswith("{")]
    (begins,) = [line for line in lines if line["event"] == "begins"]
    assert begins["count"] == "3"
    assert begins["catalog"] == "..."
    assert begins["job"] == "plain"
    (half,) = [line for line in lines if line["event"] == "half"]
    assert (half["done"], half["total"]) == (1, 2)


@pytest.mark.parametrize(
    ("found", "fail_on", "code"),
    [
        ("error", "error", FOUND),
        ("warning", "error", DONE),
        ("info,warning", "warning", FOUND),
        ("info", "info", FOUND),
        ("error", "never", DONE),
    ],
)
def test_findings(capsys: pytest.CaptureFixture[str], found: str, fail_on: str, code: int) -> None:
    assert PLAIN.main(["--found", found, "--fail-on", fail_on, "--no-loud"]) == code
    report = report_of(capsys.readouterr().out)
    assert report["status"] == ("findings" if code == FOUND else "done")
    assert report["findings"][0] == {
        "check": "gaps",
        "level": found.partition(",")[0],
        "where": {"offset": 17},
        "message": "äh",
    }


def test_a_job_that_fails(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert PLAIN.main(["--end", "fail", "--report", str(tmp_path / "r")]) == FAILED
    reported = capsys.readouterr()
    report = report_of(reported.out)
    assert report["status"] == "failed"
    assert report["error"] == "RuntimeError: line one\nline two"
    assert "Traceback" in reported.err
    assert json.loads((tmp_path / "r").read_text(encoding="utf-8")) == report
    # A report file that cannot be written is a failure.
    assert PLAIN.main(["--report", str(tmp_path / "none" / "r")]) == FAILED
    report = report_of(capsys.readouterr().out)
    assert report["status"] == "failed"
    assert report["error"].startswith("--report")


PASSWORDS = "username needs --password-file or --password-env"
WRONG = [
    (["--count", "6"], "--count: '6' is not a whole number from 1 to 5"),
    (["--count", "many"], "whole number"),
    (["--count", "4"], "--count 4 goes with nothing"),
    (["--end", "badly"], "--end: 'badly' is not one of"),
    (["--end", "wrong"], "--catalog: there is none"),
    (["--found", "error,,"], "names with commas"),
    (["--coun", "1"], "there is no option --coun: did you mean --count"),
    (["--token", "hunter2"], "there is no option --token"),
    (["--password", "hunter2"], "there is no option --password"),
    (["--servers", "a"], "--servers: 'a' is not host:port"),
    (["--token-file", "a", "--token-env", "B"], "only one is possible"),
    (["--token-file", "a", "--username", "b", "--password-env", "C"], "only one is possible"),
    (["--username", "a"], PASSWORDS),
    (["--username", "a", "--password-file", "b", "--password-env", "C"], PASSWORDS),
    (["--password-env", "B"], PASSWORDS),
    (["--tls-certificate", "a"], "--tls-certificate and --tls-key belong together"),
    (["--tls-server-name", "a"], "--tls-server-name needs --tls"),
    (["--tls-nodes", "maybe"], "--tls-nodes: 'maybe' is not one of"),
    (["--metrics-listen", "a:b"], "--metrics-listen: 'a:b' is not host:port"),
    (["--metrics-listen", "70000"], "--metrics-listen"),
    (["--log-level", "loud"], "--log-level: 'loud' is not one of"),
    (["--fail-on", "always"], "--fail-on: 'always' is not one of"),
    (["--report"], "option '--report' requires an argument"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_wrong_arguments(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert PLAIN.main(arguments) == WRONG_ARGUMENTS
    reported = capsys.readouterr()
    assert said in reported.err
    assert "error: " in reported.err
    assert reported.err.endswith("`headrace-spark plain --help` shows what there is\n")
    assert not reported.out


def test_jobs_do_not_go_through_connect(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    assert JOB.main([*LEAST, "--topic", "a", "--journal", "j", "--checkpoint", str(tmp_path)]) == WRONG_ARGUMENTS
    assert "SPARK_REMOTE is set" in capsys.readouterr().err


STREAM = [*LEAST, "--topic", "a", "--journal", "j"]
WRONG_OF_STREAMS = [
    ([], "--topic is missing"),
    (STREAM, "--checkpoint is required"),
    (["--stream", "s", "--topic", "a", "--journal", "j", "--checkpoint", "c"], "--servers is required"),
    (["--servers", "a:1", "--topic", "a", "--journal", "j", "--checkpoint", "c"], "--stream is required"),
    *(
        ([*STREAM, "--checkpoint", "c", "--trigger", text], "--trigger")
        for text in ("now", "interval", "interval:0s", "interval:soon", "available-now:1s", "continuous")
    ),
    ([*STREAM, "--checkpoint", "c", "--max-offsets-per-trigger", "0"], "--max-offsets-per-trigger"),
    ([*STREAM, "--checkpoint", "c", "--max-bytes-per-trigger", "1x"], "--max-bytes-per-trigger"),
    ([*STREAM, "--checkpoint", "c", "--slow", "very"], "--slow"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG_OF_STREAMS)
def test_wrong_arguments_of_streaming_jobs(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    """Check invalid arguments, none of which starts Spark."""
    assert JOB.main(arguments) == WRONG_ARGUMENTS
    assert said in capsys.readouterr().err


def test_what_the_data_source_receives() -> None:
    config = StreamJobConfig(
        servers="a:1",
        stream="shop",
        name="eu",
        username="u",
        password_file="p",
        tls_ca="ca",
        tls_nodes="false",
        checkpoint="c",
        max_offsets_per_trigger=10,
        max_bytes_per_trigger=1024,
    ).checked()
    where = {
        "servers": "a:1",
        "stream": "shop",
        "username": "u",
        "passwordFile": "p",
        "tls.enabled": "true",
        "tls.nodes": "false",
        "tls.ca": "ca",
    }
    assert config.source_options() == where
    limits = {"maxOffsetsPerTrigger": "10", "maxBytesPerTrigger": "1024"}
    assert config.stream_options() == where | limits | {"readerId": "eu"}
    assert config.sink_options("b", "c") == where | {"topics": "b,c", "transactionalId": "eu"}
    assert config.sink_options("out") == where | {"topic": "out", "transactionalId": "eu"}
    nodes_alone = JobConfig(servers="a:1", stream="shop", tls_nodes="true", tls_ca="ca", tls_server_name="n").checked()
    assert nodes_alone.source_options() == {
        "servers": "a:1",
        "stream": "shop",
        "tls.enabled": "false",
        "tls.nodes": "true",
        "tls.ca": "ca",
        "tls.serverName": "n",
    }
    nameless = JobConfig(servers="a:1", stream="shop", token_env="T").checked()
    assert nameless.source_options() == {"servers": "a:1", "stream": "shop", "tokenEnv": "T"}


@pytest.mark.parametrize(
    ("text", "arguments", "ends"),
    [
        ("available-now", {"availableNow": True}, True),
        ("interval:30s", {"processingTime": "30000 milliseconds"}, False),
        ("continuous-default", {}, False),
    ],
)
def test_triggers(text: str, arguments: dict[str, Any], ends: bool) -> None:
    trigger = Trigger.of(text)
    assert (trigger.arguments(), trigger.ends) == (arguments, ends)
    assert Trigger.of(str(trigger)) == trigger


def test_for_how_long_the_oldest_message_has_waited() -> None:
    clock = LagClock()
    assert clock.lag(0.0, 100, 100) == 0.0
    assert clock.lag(10.0, 150, 100) == 0.0
    assert clock.lag(20.0, 170, 120) == 10.0
    assert clock.lag(30.0, 170, 160) == 10.0
    assert clock.lag(40.0, 170, 170) == 0.0
    for second in range(20_000):
        last = clock.lag(100.0 + second, 200 + second, 200)
    assert 19_000 <= last <= 19_999


def test_a_topic_that_joins_has_no_messages_in_that_micro_batch() -> None:
    start = '{"t":{"s/a":{"p":{"0":5}}}}'
    end = '{"t":{"s/a":{"p":{"0":7,"1":2}},"s/b":{"p":{"0":1000}}}}'
    assert between(start, end) == {("s/a", 0): 2, ("s/a", 1): 2}
    assert between(None, end) is None


def test_the_program(capsys: pytest.CaptureFixture[str], jobs: None) -> None:
    assert program.main(["--help"]) == 0
    assert re.search(r"^ +copy +Notes micro-batches\.$", capsys.readouterr().out, re.MULTILINE)
    assert program.main([]) == 2
    assert "Usage: headrace-spark" in capsys.readouterr().err
    assert program.main(["copies"]) == 2
    assert "there is no job 'copies': did you mean copy?" in capsys.readouterr().err
    assert program.main(["copy", "--help"]) == 0
    assert "--checkpoint" in capsys.readouterr().out
    assert program.main(["copy", "--servers", "x"]) == 2
    assert "error: --servers: 'x' is not host:port" in capsys.readouterr().err
    assert program.main(["--script"]) == 0
    path = Path(capsys.readouterr().out.strip())
    reported = subprocess.run([sys.executable, path, "--script"], capture_output=True, text=True, check=True)
    assert reported.stdout == f"{path}\n"


def test_completion(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert program.main(["--print-completion", shell]) == 0
        assert f"_HEADRACE_SPARK_COMPLETE={shell}_complete" in capsys.readouterr().out
    # Words as the script of bash asks for them: jobs, arguments, and files.
    monkeypatch.setenv("_HEADRACE_SPARK_COMPLETE", "bash_complete")
    cases = {"tran": "plain,transform", "transform --che": "plain,--checkpoint", "audit --report ": "file,"}
    for words, expected in cases.items():
        monkeypatch.setenv("COMP_WORDS", f"headrace-spark {words}")
        monkeypatch.setenv("COMP_CWORD", str(1 + words.count(" ")))
        with pytest.raises(SystemExit):
            program.main([])
        assert capsys.readouterr().out == f"{expected}\n"


def test_jobs_are_listed_without_spark_and_say_the_same_of_themselves() -> None:
    code = (
        "import sys; from pyspark_headrace.jobs.main import main; main(['--help']); assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    for name, entry in program.JOBS.items():
        job = program.job(name)
        assert (job.name, job.summary) == (name, entry.summary)
        assert job.command().name == name


def test_people_on_a_terminal_see_a_line_that_changes() -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, SAMPLE, "plain", "--no-loud"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(theirs)
    seen = b""
    # On Linux, reading a terminal whose other side is closed is an error.
    with suppress(OSError):
        while part := os.read(ours, 4096):
            seen += part
    os.close(ours)
    out, _ = process.communicate(timeout=60)
    assert report_of(out)["status"] == "done"
    assert b"plain: half" in seen
    assert b'{"' not in seen


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, SAMPLE, "plain", "--end", "stop"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    while "waiting" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert report_of(out)["status"] == "stopped"


def test_a_second_signal_insists() -> None:
    code = """
import os, signal, time
from pyspark_headrace.jobs.running.stopping import Stop
stop = Stop()
with stop.on_signals():
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.wait(5)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=50).returncode == -signal.SIGTERM


def test_signals_are_left_alone_afterwards_and_in_other_threads() -> None:
    before = signal.getsignal(signal.SIGTERM)
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(PLAIN.main(["--no-loud"])))
    thread.start()
    thread.join()
    assert codes == [DONE]
    assert PLAIN.main(["--no-loud"]) == DONE
    assert signal.getsignal(signal.SIGTERM) is before


def test_metrics_over_a_socket(capsys: pytest.CaptureFixture[str]) -> None:
    with Metrics("archive", "eu") as metrics:
        url = metrics.listen("127.0.0.1", 0)
        metrics.lag({("shop/orders", 1): 5}, 2.5)
        metrics.batch(0.75)
        metrics.add(rows=10, bytes=1000)
        metrics.counter("files", "Files.").inc()
        metrics.gauge("open_files", "Files.").set(2)
        with urllib.request.urlopen(url, timeout=10) as response:
            lines = set(response.read().decode().splitlines())
        assert {
            'headrace_job_lag_messages{job="archive",name="eu",partition="1",topic="shop/orders"} 5.0',
            'headrace_job_lag_seconds{job="archive",name="eu"} 2.5',
            'headrace_job_batch_seconds_sum{job="archive",name="eu"} 0.75',
            'headrace_job_rows_total{job="archive",name="eu"} 10.0',
            'headrace_job_bytes_total{job="archive",name="eu"} 1000.0',
            'headrace_job_files_total{job="archive",name="eu"} 1.0',
            'headrace_job_open_files{job="archive",name="eu"} 2.0',
        } <= lines
        # Listens on loopback only, and another job cannot use the same port.
        address = url.removeprefix("http://").partition("/")[0]
        assert PLAIN.main(["--metrics-listen", address]) == WRONG_ARGUMENTS
        assert "--metrics-listen" in capsys.readouterr().err
    with pytest.raises(OSError), socket.create_connection(tuple(address.rsplit(":", 1)), timeout=5):  # type: ignore[arg-type] # noqa: PT011
        pass
