"""`headrace connect`: pipeline files, and connectors that run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests import command_line
from tests.command_line.schemas import validate
from tests.command_line.shell import Shell
from tests.connectors.process import until
from tests.ports import free_port

from headrace_connectors.commands import connect
from headrace_connectors_api import ConnectorAnswer
from headrace_embedded import Server

RANDOM = '[sources.orders]\nplugin = "random"\nstream = "shop"\ntopic = "made-up"\n[sources.orders.settings]\n'
ROUTED = (
    '[sources.orders]\nplugin = "random"\n[sources.orders.settings]\ninterval = "1 ms"\n[sources.orders.routing]\n'
    'default_stream = "wares"\ndefault_topic = "other"\ntopic_column = "ware"\npartition_key_column = "id"\n'
)


SINK = '[sinks.idle]\nplugin = "stdout"\nstream = "wares"\ntopic = "tea"\nenabled = false\n'


def top(server: Server) -> str:
    """Tables of a pipeline file that name the server."""
    return (
        f'[server]\nurl = "headrace://{server.address}"\nusername = "{server.username}"\n'
        f'password = "{server.password}"\n'
    )


@pytest.fixture
def pipeline(tmp_path: Path, server: Server) -> Path:
    """A pipeline file whose records are routed by a column."""
    file = tmp_path / "pipeline.toml"
    file.write_text(top(server) + ROUTED)
    return file


def test_a_valid_file(headrace: Shell, pipeline: Path) -> None:
    assert headrace("connect", "lint", str(pipeline)) == f"{pipeline} is valid: 1 source (orders)\n"
    pipeline.write_text(pipeline.read_text() + SINK)
    assert headrace("connect", "lint", str(pipeline)) == f"{pipeline} is valid: 1 source (orders), 1 sink (idle)\n"


def test_fields_that_no_record_can_have_are_mistakes(headrace: Shell, pipeline: Path, tmp_path: Path) -> None:
    """Regression: a misspelt `topic_column` was valid, and all records went to the default topic."""
    pipeline.write_text(pipeline.read_text().replace('"ware"', '"wear"'))
    refused = headrace.run("connect", "lint", str(pipeline))
    assert (refused.returncode, refused.stdout) == (1, b"")
    place = "sources.orders: routing.topic_column: no record has the field 'wear'"
    assert f"{place}; they have id, ware, count, cents, at" in " ".join(refused.stderr.decode().split())
    rows = tmp_path / "rows.csv"
    settings = f'paths = ["{rows}"]\nformat = "csv"\n'
    text = pipeline.read_text().replace('"random"', '"files"').replace('interval = "1 ms"\n', settings)
    pipeline.write_text(text.replace('"wear"', '"ware"') + '[sources.orders.settings.csv]\ncolumns = ["id", "wares"]\n')
    refused = headrace.run("connect", "lint", str(pipeline))
    assert refused.returncode == 1
    assert "no record has the field 'ware'; they have id, wares" in " ".join(refused.stderr.decode().split())


def test_fields_that_only_records_show_are_named(headrace: Shell, pipeline: Path, tmp_path: Path) -> None:
    """A file without the names of its columns may have them."""
    settings = f'paths = ["{tmp_path}/rows.csv"]\nformat = "csv"\n'
    text = pipeline.read_text().replace('"random"', '"files"').replace('interval = "1 ms"\n', settings)
    pipeline.write_text(text)
    passed = headrace.run("connect", "lint", str(pipeline))
    assert (passed.returncode, passed.stdout.decode()) == (0, f"{pipeline} is valid: 1 source (orders)\n")
    note = " ".join(passed.stderr.decode().split())
    assert "sources.orders: routing.topic_column = 'ware', routing.partition_key_column = 'id'" in note
    assert f"headrace connect test {pipeline}" in note


def test_every_mistake_is_reported_with_its_line(headrace: Shell, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(RANDOM + "batch_sise = 3\nseed = 'x'\n[htp]\n")
    refused = headrace.run("connect", "lint", str(file))
    message = refused.stderr.decode()
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert "3 wrong setting(s)" in message
    for line, setting in ((6, "batch_sise"), (7, "seed"), (8, "htp")):
        assert any(setting in row and f"(%s line {line})" % file in row for row in message.splitlines()), message
    assert "did you mean batch_size?" in message


@pytest.mark.parametrize("plugin", ["opensearch", "postgres", "postgres_cdc", "random", "webhook"])
def test_a_new_file_is_valid_when_its_blanks_are_filled(headrace: Shell, tmp_path: Path, plugin: str) -> None:
    text = headrace("connect", "new", plugin)
    file = tmp_path / "new.toml"
    file.write_text(text)
    blank = headrace.run("connect", "lint", str(file))
    assert blank.returncode == 1
    assert "the environment variable STREAM is not set" in blank.stderr.decode()
    filled = text.replace("${STREAM}", "shop").replace("${TOPIC}", "orders").replace("${INDEX}", "orders")
    url = "http://search:9200" if plugin == "opensearch" else "postgresql:///x"
    filled = filled.replace("${URL}", url).replace("${CURSOR_FIELD}", "at")
    filled = (
        filled.replace("${SLOT}", "shop").replace("${TABLES}", "public.orders").replace("${TABLE}", "public.orders")
    )
    # Exactly one of three settings of this plugin has to be chosen.
    filled = filled.replace('#cursor_column = "..."', 'cursor_column = "id"')
    file.write_text(filled)
    headrace("connect", "lint", str(file))
    assert tomllib.loads(filled)["sources"]["example"]["plugin"] == plugin


@pytest.mark.parametrize("plugin", ["http", "parquet", "postgres", "stdout"])
def test_a_new_file_of_a_sink_is_valid_when_its_blanks_are_filled(headrace: Shell, tmp_path: Path, plugin: str) -> None:
    text = headrace("connect", "new", plugin, *(["--sink"] if plugin == "postgres" else []))
    assert "# Pipeline file with one sink of the plugin" in text
    assert "headrace connect test FILE` shows what would be written" in " ".join(text.replace("\n#", "").split())
    for name, value in {
        "STREAM": "shop",
        "TOPIC": "orders",
        "PATH": str(tmp_path / "written"),
        "TABLE": "public.orders",
        "URL": "postgresql:///x" if plugin == "postgres" else "http://localhost/x",
    }.items():
        text = text.replace(f"${{{name}}}", value)
    if plugin == "postgres":
        # This plugin needs it in two of three modes.
        text = text.replace('#table = "..."', 'table = "public.orders"')
    file = tmp_path / "new.toml"
    file.write_text(text)
    headrace("connect", "lint", str(file))
    assert tomllib.loads(text)["sinks"]["example"]["plugin"] == plugin
    if plugin == "postgres":
        assert "[sources.example]" in headrace("connect", "new", plugin)


SINK_TRIAL = """
[sinks.out]
plugin = "stdout"
stream = "STREAM"
topic = "t"
[sinks.out.transforms.delete_fields]
fields = ["secret", "pasword"]
"""


def test_a_trial_of_a_sink_shows_what_would_be_written(
    headrace: Shell, topic: tuple[str, str], server: Server, tmp_path: Path
) -> None:
    """The next messages, decoded and transformed; nothing is written, and no offset stored."""
    stream, name = topic
    file = tmp_path / "sink.toml"
    sink = SINK_TRIAL.replace("STREAM", stream)
    file.write_text(top(server) + sink)
    empty = headrace("connect", "test", str(file))
    assert "out: its topics have no messages" in empty
    for number in range(3):
        headrace("send", *topic, json.dumps({"n": number, "secret": "x"}), "--partition", "0")
    headrace("send", *topic, "no JSON", "--partition", "1")
    refused = headrace.run("connect", "test", str(file), "--json")
    assert refused.returncode == 1
    (trial,) = json.loads(refused.stdout)
    validate("connect-test", [trial])
    assert (trial["kind"], trial["error"]) == ("sink", None)
    written = [(one["partition"], one["offset"], one["payload"]) for one in trial["records"][:3]]
    assert written == [(0, number, f'{{"n":{number}}}') for number in range(3)]
    bad = trial["records"][3]
    assert (bad["outcome"], bad["payload"]) == ("invalid", "no JSON")
    assert "the payload is not JSON" in bad["reason"]
    warning = "delete_fields.fields: the field 'pasword' is missing in all {} records; they have n, secret"
    assert trial["warnings"] == [warning.format(3)]
    shown = headrace.run("connect", "test", str(file), "--records", "2").stdout.decode()
    warning = warning.format(2)
    assert f"warn  out: {warning}\n" in shown
    assert f"{stream}/{name}, 0:1" in shown
    assert "secret" not in shown.replace(warning, "")
    assert "would be written" in shown
    assert json.loads(headrace("group", "list", *topic, "--json")) == []


def test_a_topic_that_a_source_creates_is_not_missed(headrace: Shell, pipeline: Path) -> None:
    """CON-94: a file is tried before its first run; without such a source a missing topic is an error."""
    sink = SINK.replace("enabled = false\n", "")
    pipeline.write_text(pipeline.read_text() + sink)
    command = ("connect", "test", str(pipeline), "--records", "1")
    tried = json.loads(headrace(*command, "--json"))
    validate("connect-test", tried)
    assert (tried[1]["error"], tried[1]["new_topics"]) == (None, [{"stream": "wares", "topic": "tea"}])
    assert "wares/tea does not exist yet: it is read when a source has created it" in " ".join(
        headrace(*command).split()
    )
    pipeline.write_text(pipeline.read_text() + "[sources.orders.topic_defaults]\ncreate = false\n")
    refused = headrace.run(*command)
    assert refused.returncode == 1
    assert "idle: there is no" in refused.stdout.decode()


def test_a_trial_continues_after_the_offsets_of_the_group(
    headrace: Shell, topic: tuple[str, str], server: Server, tmp_path: Path
) -> None:
    stream, name = topic
    file = tmp_path / "sink.toml"
    file.write_text(f'{top(server)}[sinks.out]\nplugin = "stdout"\nstream = "{stream}"\ntopic = "{name}"\n')
    for number in range(4):
        headrace("send", *topic, str(number), "--partition", "0")
    headrace("group", "create", *topic, "out")

    def offsets() -> list[int]:
        (trial,) = json.loads(headrace("connect", "test", str(file), "--json", "--records", "3"))
        return [record["offset"] for record in trial["records"]]

    assert offsets() == [0, 1, 2]
    headrace("group", "reset", *topic, "out", "--to", "2", "--yes")
    assert offsets() == [2, 3]
    headrace("group", "reset", *topic, "out", "--to", "last", "--yes")
    assert offsets() == [1, 2, 3]


def test_a_new_file_has_every_setting_with_its_default_and_description(headrace: Shell) -> None:
    text = headrace("connect", "new", "webhook")
    assert "# Address to listen on; port 0 picks a free port." in text
    for line in ('#address = "127.0.0.1:8121"', '#max_body = "1 MiB"', "#batch_size = 1000", "#max_destinations = 256"):
        assert line in text.splitlines()
    with_defaults = "\n".join(line.removeprefix("#") if line.startswith("#max") else line for line in text.splitlines())
    assert tomllib.loads(with_defaults)["sources"]["example"]["settings"]["max_waiting"] == "64 MiB"


def test_a_plugin_that_is_not_there(headrace: Shell) -> None:
    refused = headrace.run("connect", "new", "webhok")
    assert refused.returncode == 1
    assert "did you mean webhook? (`headrace connect plugins` lists them)" in refused.stderr.decode()


def test_plugins(headrace: Shell) -> None:
    found = json.loads(headrace("connect", "plugins", "--json"))
    validate("connect-plugins", found)
    assert {("source", "webhook"), ("transform", "route"), ("codec", "json")} <= {(p["kind"], p["name"]) for p in found}
    assert all(one["is_usable"] for one in found if one["distribution"] == "headrace")
    assert "postgres_cdc" in headrace("connect", "plugins")


CASE = """
from headrace_connectors.conformance import CodecCase


class Json(CodecCase):
    name = "json"
    bad_bytes = (b"{", %s)

    def payloads(self):
        from hypothesis import strategies

        return strategies.text()
"""


@pytest.mark.long
def test_a_plugin_is_checked(headrace: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(headrace("connect", "test-plugin", "json", "--json"))
    validate("connect-test-plugin", found)
    results = {one["rule"]: one["result"] for one in found}
    assert (results["settings_are_described"], results["payloads_survive"]) == ("passed", "not_checked")
    assert "the case has no payloads" in headrace("connect", "test-plugin", "json")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "good_case.py").write_text(CASE % 'b"}"')
    found = json.loads(headrace("connect", "test-plugin", "json", "--case", "good_case:Json", "--json"))
    assert {one["result"] for one in found} == {"passed"}


def test_a_broken_rule_is_reported(headrace: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "bad_case.py").write_text(CASE % 'b"7"')
    broken = headrace.run("connect", "test-plugin", "json", "--case", "bad_case:Json", "--json")
    assert broken.returncode == 1
    (reason,) = [one["reason"] for one in json.loads(broken.stdout) if one["result"] == "failed"]
    assert reason == "b'7' is not of this form, and decoded without an error"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("jsn",), "'jsn' is not a plugin (`headrace connect plugins` lists them)"),
        (("json", "--case", "no_such_module:Case"), "write module:Class"),
        (("json", "--case", "json:dumps"), "is no subclass of headrace_connectors.conformance.Case"),
        (("json", "--case", "headrace_connectors.conformance:CodecCase"), "has no name"),
    ],
)
def test_a_check_that_cannot_be_made(headrace: Shell, arguments: tuple[str, ...], message: str) -> None:
    refused = headrace.run("connect", "test-plugin", *arguments)
    assert refused.returncode == 1
    assert message in " ".join(refused.stderr.decode().split())


def test_a_trial_shows_destinations_and_stores_nothing(headrace: Shell, pipeline: Path) -> None:
    command = ("connect", "test", str(pipeline), "--records", "4")
    (trial,) = json.loads(headrace(*command, "--json"))
    validate("connect-test", [trial])
    records = trial["records"]
    assert [(record["outcome"], record["stream"], record["key"]) for record in records] == [
        ("sent", "wares", str(number)) for number in range(4)
    ]
    assert [record["topic"] for record in records] == [json.loads(record["payload"])["ware"] for record in records]
    assert {topic["topic"] for topic in trial["new_topics"]} == {record["topic"] for record in records}
    shown = headrace(*command)
    assert f"wares/{records[0]['topic']} would be created" in " ".join(shown.split())
    assert "wares" not in headrace("stream", "list")
    assert [path.name for path in pipeline.parent.iterdir()] == [pipeline.name], "the trial has left a state"


def test_a_trial_reports_refusals(headrace: Shell, pipeline: Path) -> None:
    denied = 'mode = "denylist"\ndeny = [{ stream = "wares", topic = "*" }]\n'
    pipeline.write_text(pipeline.read_text() + f"[sources.orders.admission]\n{denied}")
    refused = headrace.run("connect", "test", str(pipeline), "-n", "1")
    assert refused.returncode == 1
    assert b"is in admission.deny" in refused.stdout


@pytest.mark.parametrize("command", ["test", "run"])
def test_there_is_no_server(headrace: Shell, tmp_path: Path, command: str) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(
        '[server]\nurl = "headrace://127.0.0.1:1"\ntimeout = "100 ms"\n[http]\naddress = "127.0.0.1:0"\n' + RANDOM
    )
    refused = headrace.run("connect", command, str(file))
    assert refused.returncode == 1
    assert f"{file} has the address and the user in [server]" in refused.stderr.decode()


@dataclass
class Running:
    """`headrace connect run` in a process of its own."""

    process: subprocess.Popen[bytes]
    options: tuple[str, ...]


@pytest.fixture
def running(headrace: Shell, pipeline: Path) -> Iterator[Running]:
    """Connectors of which one runs, one is in error, and one is a sink that is not enabled."""
    port = free_port()
    lost = f'mapping_url = "http://127.0.0.1:{port}/mappings/none"\n'
    pipeline.write_text(
        pipeline.read_text()
        + f'[http]\naddress = "127.0.0.1:{port}"\ntoken = "secret"\n'
        + '[sources.lost]\nplugin = "random"\n[sources.lost.transforms.route]\ntopic_field = "ware"\n'
        + lost
        + SINK
    )
    process = headrace.start("connect", "run", str(pipeline))
    options = ("--url", f"http://127.0.0.1:{port}", "--token", "secret")
    try:
        # The status has the exit status 1 all the time, since one connector is in error.
        until(lambda: process.poll() is not None or b"running" in headrace.run("connect", "status", *options).stdout)
        yield Running(process, options)
    finally:
        process.kill()
        process.communicate()


def test_connectors_that_run(headrace: Shell, running: Running) -> None:
    """Their status in every form, with the exit status 1 for the one in error; their end by a signal."""
    until(lambda: b" error " in headrace.run("connect", "status", *running.options).stdout)
    shown = headrace.run("connect", "status", *running.options, "--json")
    connectors = json.loads(shown.stdout)
    validate("connect-status", connectors)
    assert shown.returncode == 1
    assert {one["key"]: one["state"] for one in connectors} == {
        "orders": "running",
        "lost": "error",
        "idle": "stopped",
    }
    validate("connect-status", yaml.safe_load(headrace.run("connect", "status", *running.options, "-o", "yaml").stdout))

    command = ("connect", "destinations", "orders", *running.options)
    until(lambda: json.loads(headrace(*command, "--json")))
    destinations = json.loads(headrace(*command, "--json"))
    validate("connect-destinations", destinations)
    assert {one["stream"] for one in destinations} == {"wares"}
    assert "closed" in headrace(*command)
    missing = headrace.run("connect", "destinations", "none", *running.options)
    assert "there is no connector 'none'; there are: orders, lost, idle" in missing.stderr.decode()
    refused = headrace.run("connect", "status", *running.options[:2])
    assert "401 the header Authorization has not the token" in refused.stderr.decode()

    running.process.send_signal(signal.SIGTERM)
    output, log = running.process.communicate(timeout=60)
    assert (running.process.returncode, output) == (0, b"")
    assert b"connectors run: orders, lost, idle" in log
    headrace("stream", "delete", "wares", "--yes")


def test_plugins_and_connectors_are_completed(
    headrace: Shell, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CON-95: names of plugins without a server, and those of connectors from the process that runs them."""
    # A process that is slow, as on a busy machine, would be given up.
    monkeypatch.setattr("headrace_connectors.commands.options.TIMEOUT_SECONDS", 60)

    def completed(line: str, **variables: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_HEADRACE_COMPLETE": "bash_complete"}
        result = command_line.run(environment=headrace.environment | words | variables)
        return [item.removeprefix("plain,") for item in result.stdout.decode().split()]

    assert completed("headrace connect new post") == ["postgres", "postgres_cdc"]
    assert "mask_fields" not in completed("headrace connect new ")
    assert completed("headrace connect test-plugin mask") == ["mask_fields"]
    options = dict(zip(("HEADRACE_CONNECTORS_URL", "HEADRACE_CONNECTORS_TOKEN"), running.options[1::2], strict=True))
    assert completed("headrace connect destinations o", **options) == ["orders"]
    assert sorted(completed("headrace connect versions ", **options)) == ["idle", "lost", "orders"]
    assert completed("headrace connect versions ", HEADRACE_CONNECTORS_URL="http://127.0.0.1:1") == []


def test_an_interface_that_is_not_there(headrace: Shell) -> None:
    refused = headrace.run("connect", "status", "--url", f"http://127.0.0.1:{free_port()}")
    assert refused.returncode == 1
    assert "give its address with --url or HEADRACE_CONNECTORS_URL" in refused.stderr.decode()


def test_the_status_does_without_the_runtime() -> None:
    """Importing it takes longer than the answer."""
    program = """
import sys
from contextlib import suppress
from headrace.cli.app import main
sys.argv = ["headrace", "connect", "status", "--help"]
with suppress(SystemExit):
    main()
print(*(name for name in sys.modules if name.startswith(("headrace_connectors.", "aiohttp", "pydantic", "rich"))))
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    commands = {
        f"headrace_connectors.commands{name}" for name in ("", ".changes", ".connect", ".documents", ".options")
    }
    assert set(shown.stdout.splitlines()[-1].split()) == commands


@pytest.mark.parametrize(
    ("state", "failures", "committed_at", "is_shown"),
    [
        ("running", 0, "2026-01-01T00:00:02Z", False),
        ("running", 0, None, True),
        ("running", 0, "2026-01-01T00:00:00Z", True),
        ("running", 1, "2026-01-01T00:00:02Z", True),
        ("error", 0, "2026-01-01T00:00:02Z", True),
    ],
)
def test_an_error_that_is_over_is_not_the_last_word(
    state: str, failures: int, committed_at: str | None, is_shown: bool
) -> None:
    """The table shows what needs attention; `errors` of the JSON keeps the others."""
    connector = ConnectorAnswer(
        key="orders",
        kind="source",
        plugin="random",
        state=state,
        consecutive_failures=failures,
        last_commit_at=committed_at,
        last_error="away",
        last_error_at="2026-01-01T00:00:01Z",
    )
    assert ("away" in connect._error_of(connector)) == is_shown
