"""Export and import: every message once, also if an export is interrupted anywhere."""

from __future__ import annotations

import base64
import csv
import json
import signal
from pathlib import Path
from types import SimpleNamespace

import pyarrow
import pyarrow.parquet
import pytest
from tests.command_line.shell import Shell

from headrace.cli.errors import CommandError
from headrace.cli.transfer import exporting, sinks
from headrace.cli.transfer.state import FileForm, StateFile
from headrace_core import Message
from headrace_embedded import Server

SEALED = base64.b64encode(b"\xffsealed").decode()
WIDE = {"int128": -(2**100), "uint128": 2**128 - 1}


@pytest.fixture(scope="module")
def filled(server: Server) -> Shell:
    """A topic with 250 messages in each of two partitions, with and without headers, and bytes that are no text.

    The headers of two messages cannot be read, and those of two others are numbers of more than 64 bits.
    """
    headrace = Shell(server)
    headrace("stream", "create", "transfer")
    headrace("topic", "create", "transfer", "source", "-p", "2")
    for partition in (0, 1):
        lines: list[dict[str, object]] = [
            {"payload": f'{partition}, "{n}"\nnext', "headers": {"n": n}} if n % 3 else {"payload_base64": "/wA="}
            for n in range(250)
        ]
        lines[1] = {"payload": "sealed", "user_headers": SEALED}
        lines[2] = {"payload": "wide", "headers": WIDE}
        stdin = "".join(json.dumps(line) + "\n" for line in lines).encode()
        headrace("send", "transfer", "source", "--json-lines", "-p", str(partition), stdin=stdin)
    return headrace


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_CHUNK_MESSAGES", 40)
    monkeypatch.setattr(exporting, "_COMMIT_BYTES", 1)


def rows(path: Path) -> list[tuple[int, int]]:
    if path.is_dir():
        tables = [pyarrow.parquet.read_table(part).to_pylist() for part in sinks.parts(path)]
        found = [row for table in tables for row in table]
    elif path.suffix == ".csv":
        with path.open(newline="") as file:
            found = list(csv.DictReader(file))
    else:
        found = [json.loads(line) for line in path.read_text().splitlines()]
    return [(int(row["partition"]), int(row["offset"])) for row in found]


EVERYTHING = [(partition, offset) for partition in (0, 1) for offset in range(250)]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_topic_goes_out_and_in(filled: Shell, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"all.{suffix}"
    result = filled.run("export", "transfer", "source", str(file))
    assert result.stderr.decode() == f"exported 500 messages to {file}\n"
    assert rows(file) == EVERYTHING
    assert list(tmp_path.iterdir()) == [file]
    filled("topic", "create", "transfer", suffix, "-p", "2")
    imported = filled.run("import", "transfer", suffix, str(file))
    assert imported.stderr.decode() == f"imported 500 messages from {file}\n"
    polled = [
        [
            [message.get(name) for name in ("partition", "offset", "payload", "headers", "user_headers")]
            for line in filled("poll", "transfer", topic, "--from", "first", "-n", "0", "--json").splitlines()
            for message in [json.loads(line)]
        ]
        for topic in ("source", suffix)
    ]
    assert polled[0] == polled[1]
    assert polled[1][1:3] == [[0, 1, "sealed", None, SEALED], [0, 2, "wide", WIDE, None]]


@pytest.mark.parametrize("form", [FileForm.CSV, FileForm.PARQUET])
def test_a_file_of_an_earlier_release_keeps_its_columns(tmp_path: Path, form: FileForm) -> None:
    """Such an export continues, and does not lose headers that its file has no column for."""
    file = tmp_path / "earlier"
    if form is FileForm.CSV:
        file.write_bytes(b"partition,payload,headers\r\n0,first,\r\n")
        position = file.stat().st_size
    else:
        file.mkdir()
        table = pyarrow.table({"partition": [0], "payload": [b"first"], "headers": ["{}"]})
        pyarrow.parquet.write_table(table, file / "part-000000.parquet")
        position = 1
    sink = sinks.opened(form, file, position)
    message = SimpleNamespace(
        offset=1, timestamp_micros=0, origin_timestamp_micros=0, id=7, payload=b"next", key=None, user_headers=b""
    )
    sink.write(0, [message])  # type: ignore[list-item]  # all that is used of a message
    position = sink.commit()
    message.user_headers = b"\xffsealed"
    with pytest.raises(CommandError, match="which message 0:1 has: --overwrite begins again"):
        sink.write(0, [message])  # type: ignore[list-item]
    sink.close()
    if form is FileForm.CSV:
        assert file.read_bytes().endswith(b"0,first,\r\n0,1,0,0,7,next,,,,\r\n")
    else:
        assert position == 2
        assert pyarrow.parquet.read_schema(sinks.parts(file)[1]).names[-1] == "headers"


def test_a_file_without_the_last_column_is_imported(filled: Shell, tmp_path: Path) -> None:
    file = tmp_path / "earlier.csv"
    file.write_text('payload,headers\na,"{""n"": 1}"\nb,\n')
    filled("topic", "create", "transfer", "earlier")
    filled("import", "transfer", "earlier", str(file))
    lines = filled("poll", "transfer", "earlier", "--from", "first", "--json").splitlines()
    assert [json.loads(line).get("headers") for line in lines] == [{"n": 1}, None]


def test_an_export_that_is_overwritten_needs_no_state(filled: Shell, tmp_path: Path) -> None:
    file = tmp_path / "there.jsonl"
    file.write_text("x")
    state = tmp_path / "there.jsonl.export-state"
    for text in ('{"of": {"topic": "a/b"}, "state": {}}', "damaged"):
        state.write_text(text)
        filled("export", "transfer", "source", str(file), "--overwrite")
        assert rows(file) == EVERYTHING
        assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_large_messages_go_out_and_in(filled: Shell, tmp_path: Path, suffix: str) -> None:
    # A limit of the process, which another test may have changed.
    csv.field_size_limit(131_072)
    text, data = b"a" * 131_073, b"\xff" * 200_000
    file = tmp_path / f"large.{suffix}"
    for topic in (f"large-{suffix}", f"large-{suffix}-copy"):
        filled("topic", "create", "transfer", topic)
    for payload in (text, data):
        filled("send", "transfer", f"large-{suffix}", "--whole", stdin=payload)
    filled("export", "transfer", f"large-{suffix}", str(file))
    filled("import", "transfer", f"large-{suffix}-copy", str(file))
    copied = filled.run("poll", "transfer", f"large-{suffix}-copy", "--from", "first", "-n", "0", "-o", "raw")
    assert copied.stdout == text + b"\n" + data + b"\n"


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("is_before", [True, False])
def test_an_interrupted_export_continues(
    filled: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, is_before: bool
) -> None:
    """Interrupt each write once, before or after it: no gaps, no repeats."""
    file = tmp_path / f"part.{suffix}"
    opened, kept = sinks.opened, []

    def interrupting(*arguments: object) -> sinks.Sink:
        sink = opened(*arguments)  # type: ignore[arg-type]  # as they came
        write, count = sink.write, 0

        def write_once(partition: int, messages: list[Message]) -> None:
            nonlocal count
            count += 1
            if count == 2 and is_before:
                raise KeyboardInterrupt
            write(partition, messages)
            if count == 2:
                raise KeyboardInterrupt

        monkeypatch.setattr(sink, "write", write_once)
        return sink

    monkeypatch.setattr(sinks, "opened", interrupting)
    for _ in range(50):
        result = filled.run("export", "transfer", "source", str(file))
        if result.returncode == 0:
            break
        assert result.returncode == 130
        assert b"the same command continues" in result.stderr
        kept.append(len(result.stderr))
    assert len(kept) > 5
    assert rows(file) == EVERYTHING
    assert list(tmp_path.iterdir()) == [file]


def test_a_killed_export_continues(filled: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that were written after the last commit are cut off."""
    file = tmp_path / "killed.jsonl"
    monkeypatch.setattr(exporting, "_COMMIT_BYTES", 1 << 30)
    written: list[int] = []

    class Killed(BaseException):
        pass

    opened = sinks.opened

    def dying(*arguments: object) -> sinks.Sink:
        sink = opened(*arguments)  # type: ignore[arg-type]  # as they came
        write = sink.write

        def write_some(partition: int, messages: list[Message]) -> None:
            write(partition, messages)
            written.append(len(messages))
            if len(written) == 5:
                sink._file.flush()  # type: ignore[attr-defined]  # as if the kernel had been given a part
                raise Killed

        monkeypatch.setattr(sink, "write", write_some)
        return sink

    monkeypatch.setattr(sinks, "opened", dying)
    with pytest.raises(Killed):
        filled.run("export", "transfer", "source", str(file))
    assert file.stat().st_size > 0
    assert filled.run("export", "transfer", "source", str(file)).returncode == 0
    assert rows(file) == EVERYTHING


def test_a_real_process_is_interrupted(filled: Shell, tmp_path: Path) -> None:
    file = tmp_path / "process.jsonl"
    with filled.start("export", "transfer", "source", str(file)) as process:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    filled("export", "transfer", "source", str(file), *(("--overwrite",) if process.returncode == 0 else ()))
    assert rows(file) == EVERYTHING


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--from", "100", "--until", "102"), [(0, 100), (0, 101), (1, 100), (1, 101)]),
        (("--from", "249", "-p", "1"), [(1, 249)]),
        (("--until", "2000-01-01"), []),
        (("--from", "2100-01-01"), []),
        (("--from", "2000-01-01", "--until", "1", "-p", "0"), [(0, 0)]),
    ],
)
def test_ranges(filled: Shell, tmp_path: Path, options: tuple[str, ...], expected: list[tuple[int, int]]) -> None:
    file = tmp_path / "range.jsonl"
    filled("export", "transfer", "source", str(file), *options)
    assert rows(file) == expected


def test_rows_of_other_tables_are_messages(filled: Shell, tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("name,amount\nann,3\n")
    filled("topic", "create", "transfer", "table")
    filled("import", "transfer", "table", str(file))
    assert filled("poll", "transfer", "table", "--from", "first", "-o", "raw") == '{"name": "ann", "amount": "3"}\n'


def test_columns_of_csv_have_the_types_that_are_given(filled: Shell, tmp_path: Path) -> None:
    """A column that does not exist, a type that does not, and a value of another type are named."""
    file = tmp_path / "typed.csv"
    file.write_text("id,price,paid,code\n1,3.5,true,007\n2,,false,\n")
    filled("topic", "create", "transfer", "typed")
    command = ("import", "transfer", "typed", str(file))
    typed = ("--type", "id=int", "--type", "price=float", "--type", "paid=bool")
    filled(*command, *typed)
    read = filled("poll", "transfer", "typed", "--from", "first", "-o", "raw").splitlines()
    assert [json.loads(line) for line in read] == [
        {"id": 1, "price": 3.5, "paid": True, "code": "007"},
        {"id": 2, "price": None, "paid": False, "code": ""},
    ]
    for options, text in (
        (("--type", "prize=float"), f"--type: {file} has no column 'prize', but id, price, paid, code"),
        (("--type", "id=number"), "--type: id=number: there is no type 'number', but text, int, float, bool"),
        (("--type", "paid=int"), f"{file}, line 2: paid: 'true' is no int"),
    ):
        refused = filled.run(*command, *options).stderr.decode()
        assert text in refused


def test_an_import_continues_behind_what_was_acknowledged(filled: Shell, tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    good = "".join(json.dumps({"payload": str(n)}) + "\n" for n in range(25))
    file.write_text(good + "{" + " " * 20 + "\n")
    filled("topic", "create", "transfer", "continued")
    failed = filled.run("import", "transfer", "continued", str(file), "--batch", "10")
    assert failed.returncode == 1
    assert failed.stderr.decode().splitlines()[1:] == [
        "stopped after 20 acknowledged messages",
        "the same command continues, and sends what is uncertain again",
    ]
    # Of the same size, by which the file is recognised.
    file.write_text(good + '{"payload": "last12"}\n')
    assert file.stat().st_size == len(good) + 22
    done = filled.run("import", "transfer", "continued", str(file), "--batch", "10")
    assert done.stderr.decode() == f"imported 6 messages from {file}, after 20 in earlier runs\n"
    payloads = filled("poll", "transfer", "continued", "--from", "first", "-n", "0", "-o", "raw").split()
    assert payloads == [*map(str, range(25)), "last12"]


def test_an_import_continues_within_a_batch_that_was_refused_in_part(filled: Shell, tmp_path: Path) -> None:
    file = tmp_path / "parts.jsonl"
    partitions = [0, 7, 0, 7, 1, 0]
    text = "".join(json.dumps({"payload": str(n), "partition": id_}) + "\n" for n, id_ in enumerate(partitions))
    file.write_text(text)
    filled("topic", "create", "transfer", "parts", "-p", "2")
    failed = filled.run("import", "transfer", "parts", str(file))
    assert failed.stderr.decode().splitlines() == [
        "error: transfer/parts has no partition 7",
        "stopped before line 2, after 3 acknowledged messages",
        "the same command continues, and sends what is uncertain again",
    ]
    # A run with other batches, which fails again.
    file.write_text(text.replace("7", "1", 1))
    assert filled.run("import", "transfer", "parts", str(file), "--batch", "1").returncode == 1
    file.write_text(text.replace("7", "1"))
    done = filled.run("import", "transfer", "parts", str(file))
    assert done.stderr.decode() == f"imported 2 messages from {file}, after 4 in earlier runs\n"
    assert list(tmp_path.iterdir()) == [file]
    shown = [
        filled("poll", "transfer", "parts", "-p", id_, "--from", "first", "-n", "0", "-o", "raw").split()
        for id_ in ("0", "1")
    ]
    assert shown == [["0", "2", "5"], ["1", "3", "4"]]


def test_an_import_continues_by_the_state_of_an_older_version(filled: Shell, tmp_path: Path) -> None:
    file = tmp_path / "older.jsonl"
    file.write_text('{"payload": "a"}\n{"payload": "b"}\n')
    of = {"topic": "transfer/older", "format": "jsonl", "size_bytes": file.stat().st_size}
    StateFile.beside(file, "import").save(of, {"line": 1, "count": 1})
    filled("topic", "create", "transfer", "older")
    done = filled.run("import", "transfer", "older", str(file))
    assert done.stderr.decode() == f"imported 1 message from {file}, after 1 in earlier runs\n"
    assert filled("poll", "transfer", "older", "--from", "first", "-o", "raw") == "b\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("export", "transfer", "source", "{d}/a.txt"),
            "the form of {d}/a.txt is unclear: give --format, or a suffix of ",
        ),
        (("export", "transfer", "source", "{d}/there.csv"), "{d}/there.csv exists: --overwrite replaces it"),
        (("export", "transfer", "source", "{d}/no/a.csv"), "{d}/no/a.csv cannot be written: No such file or directory"),
        (("import", "transfer", "source", "{d}/none.csv"), "{d}/none.csv does not exist"),
        (("import", "transfer", "source", "{d}/bad.jsonl"), "line 1 is not JSON: Expecting value: "),
        (("import", "transfer", "source", "{d}/deep.jsonl"), "line 1 is too deeply nested: "),
        (("import", "transfer", "source", "{d}/deep.csv"), "line 1: headers is not an object of names and values"),
        (("import", "transfer", "source", "{d}/bad.parquet"), "{d}/bad.parquet is not Parquet: "),
        (("import", "transfer", "source", "{d}/other.jsonl"), "{d}/other.jsonl.import-state is the state of another "),
        (
            ("import", "transfer", "source", "{d}/odd.jsonl"),
            "{d}/odd.jsonl.import-state is not the state of a transfer: ",
        ),
    ],
)
def test_mistakes(filled: Shell, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    (tmp_path / "there.csv").write_text("")
    for name in ("bad.jsonl", "bad.parquet", "other.jsonl", "odd.jsonl"):
        (tmp_path / name).write_text("x")
    (tmp_path / "deep.jsonl").write_text("[" * 100_000)
    (tmp_path / "deep.csv").write_text("payload,headers\nx," + "[" * 100_000 + "\n")
    (tmp_path / "other.jsonl.import-state").write_text('{"of": {"topic": "a/b"}, "state": {}}')
    (tmp_path / "odd.jsonl.import-state").write_text("{}")
    result = filled.run(*(argument.replace("{d}", str(tmp_path)) for argument in arguments))
    assert result.stderr.decode().startswith(f"error: {message.replace('{d}', str(tmp_path))}")
    assert result.returncode in {1, 2}
