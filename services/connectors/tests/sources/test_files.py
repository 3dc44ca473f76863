"""CON-42: the source of files: rotation, formats, positions and ids."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace_connectors.codecs.plain import JsonCodec
from headrace_connectors.contract import Polling, Settings, StateVersionMismatch, encode_state
from headrace_connectors.sources.files.settings import FilesSettings
from headrace_connectors.sources.files.source import FilesSource
from headrace_settings import SettingsError

LONG = b"".join(b"a line with the number %04d\n" % number for number in range(100))


class Reading:
    """A source whose batches are stored, and that can be started anew."""

    def __init__(self, **settings) -> None:
        self._settings = {"complete_after": "1 day", "poll_interval": "1 ms", **settings}
        self.state: bytes | None = None
        self.source = self._new()

    def _new(self) -> FilesSource:
        return FilesSource(FilesSettings.model_validate(self._settings))

    async def restart(self, **settings) -> None:
        """Start anew with the state."""
        await self.source.close()
        self._settings |= settings
        self.source = self._new()
        await self.source.open(self.state)

    async def batch(self, *, is_stored: bool = True):
        """Records of the next poll that has any; none if there are no more."""
        while (batch := await self.source.poll()) is not None:
            if is_stored or not batch.records:
                self.state = batch.state
                await self.source.commit()
            if batch.records:
                return batch.records
        return []

    async def all(self):
        """All records that there are."""
        found = []
        while records := await self.batch():
            found += records
        return found

    async def payloads(self):
        return [record.payload for record in await self.all()]


@pytest.fixture
async def reading():
    """Make sources; each is closed at the end."""
    made = []

    def reading(*paths: Path | str, **settings) -> Reading:
        one = Reading(paths=[str(path) for path in paths], **settings)
        made.append(one)
        return one

    yield reading
    for one in made:
        await one.source.close()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def ids(records):
    return [record.id for record in records]


async def test_lines_that_are_complete_are_read_once(reading, tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(b"one\r\ntwo\nthr")
    one = reading(tmp_path / "*.log")
    assert one.source.mode() == Polling(destructive=False)
    records = await one.all()
    assert [record.payload for record in records] == ["one", "two"]
    assert [record.headers for record in records] == [{"file": str(log), "line": 1}, {"file": str(log), "line": 2}]
    assert records[0].table == str(log)
    append(log, b"ee\n\nfour\n")
    await one.restart()
    more = await one.all()
    assert [(record.payload, record.headers["line"]) for record in more] == [("three", 3), ("", 4), ("four", 5)]
    assert len(set(ids(records + more))) == 5


async def test_what_was_not_stored_comes_again_with_the_same_ids(reading, tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(LONG)
    one = reading(log, batch_size=7)
    await one.batch()
    first = await one.batch(is_stored=False)
    again = await one.batch(is_stored=False)
    await one.restart()
    third = await one.batch(is_stored=False)
    assert ids(first) == ids(again) == ids(third)
    assert first[0].payload.endswith("0007")
    assert len(await one.all()) == 93


async def test_files_are_numbered_in_the_state_before_anything_is_sent(reading, tmp_path):
    (tmp_path / "a.log").write_bytes(b"same\n")
    one = reading(tmp_path / "*.log")
    batch = await one.source.poll()
    assert (batch.records, b'"number":1' in batch.state) == ([], True)
    await one.source.commit()
    (tmp_path / "b.log").write_bytes(b"same\n")
    batch = await one.source.poll()
    assert (batch.records, b'"number":2' in batch.state) == ([], True)
    await one.source.commit()
    assert len(set(ids(await one.all()))) == 2


async def test_files_take_turns(reading, tmp_path):
    for name in "abc":
        (tmp_path / name).write_bytes(name.encode() + LONG)
    one = reading(tmp_path / "*", batch_size=50)
    seen = [(await one.batch())[0].headers["file"][-1] for _ in range(3)]
    assert seen == ["a", "b", "c"]


# ---- rotation


@pytest.mark.parametrize("is_running", [True, False])
@pytest.mark.parametrize("pattern", ["a.log", "a.log*"])
async def test_a_renamed_file_is_read_to_its_end(reading, tmp_path, is_running, pattern):
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n2\n")
    one = reading(tmp_path / pattern)
    records = await one.all()
    append(log, b"3\n")
    log.rename(tmp_path / "a.log.1")
    append(tmp_path / "a.log.1", b"4\n")
    log.write_bytes(b"5\n")
    if not is_running:
        await one.restart()
    records += await one.all()
    append(tmp_path / "a.log.1", b"6\n")
    append(log, b"7\n")
    records += await one.all()
    assert sorted(record.payload for record in records) == list("1234567")
    assert len(set(ids(records))) == 7


async def test_a_file_that_is_deleted_while_it_is_followed_is_read_to_its_end(reading, tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(LONG)
    one = reading(log, batch_size=10)
    await one.batch()
    log.unlink()
    log.write_bytes(b"new\n")
    assert len(await one.batch(is_stored=False)) == 10
    payloads = await one.payloads()
    assert len(payloads) == 91
    assert payloads.count("new") == 1


async def test_a_renamed_file_is_given_up_when_it_is_complete(reading, tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    one = reading(log)
    assert await one.payloads() == ["1"]
    log.rename(tmp_path / "old")
    append(tmp_path / "old", b"2")
    os.utime(tmp_path / "old", (0, 0))
    await one.restart(complete_after="10 ms")
    assert await one.payloads() == ["2"]
    assert b'"path"' not in one.state
    assert not one.source._open_files


@pytest.mark.parametrize("is_running", [True, False])
@pytest.mark.parametrize("again", [b"", LONG + LONG])
async def test_a_truncated_file_is_read_from_its_beginning(reading, tmp_path, is_running, again):
    log = tmp_path / "a.log"
    log.write_bytes(b"first\n" + LONG)
    one = reading(log)
    before = await one.all()
    log.write_bytes(b"")
    append(log, b"second\n" + again)
    if not is_running:
        await one.restart()
    after = await one.all()
    assert after[0].payload == "second"
    assert len(after) == 1 + again.count(b"\n")
    assert not set(ids(before)) & set(ids(after))


async def test_a_copy_is_read_on_after_what_was_read_of_the_original(reading, tmp_path):
    """Rotation by copying and truncating: lines between the last poll and the copy are in the copy alone."""
    log, copy = tmp_path / "a.log", tmp_path / "a.log.1"
    log.write_bytes(LONG)
    one = reading(tmp_path / "a.log*")
    assert len(await one.all()) == 100
    append(log, b"last\n")
    copy.write_bytes(log.read_bytes()[:2000])
    assert await one.payloads() == ["last"]
    append(log, b"more\n")
    shutil.copy(log, copy)
    log.write_bytes(b"new\n")
    assert sorted(await one.payloads()) == ["more", "new"]
    other = reading(tmp_path / "a.log*", skip_copies=False)
    assert len(await other.all()) == 103


async def test_another_file_with_the_same_inode_is_another_file(reading, tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(b"old line\n")
    one = reading(log)
    old = await one.all()
    await one.source.close()
    # As a recycled inode looks: the same inode, and other contents of the same size.
    log.write_bytes(b"new line\n")
    await one.restart()
    new = await one.all()
    assert [record.payload for record in new] == ["new line"]
    assert ids(old) != ids(new)


async def test_a_second_name_and_excluded_names_are_left_out(reading, tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    os.link(log, tmp_path / "b.log")
    (tmp_path / "c.gz").write_bytes(b"x\n")
    (tmp_path / "d").mkdir()
    one = reading(tmp_path / "*", tmp_path / "a*", exclude=["*.gz"])
    assert await one.payloads() == ["1"]


async def test_a_file_that_cannot_be_read_is_left_out_until_it_can_be(reading, tmp_path, monkeypatch):
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    (tmp_path / "b.log").write_bytes(b"2\n")
    one = reading(tmp_path / "*.log")
    opened = os.open

    def refused(path, *arguments, **named):
        if path == str(log):
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        assert await one.payloads() == ["2"]
    assert await one.payloads() == ["1"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        await one.restart()
        assert await one.payloads() == []
    append(log, b"3\n")
    assert await one.payloads() == ["3"]


async def test_a_directory_that_cannot_be_listed_loses_no_position(reading, tmp_path, monkeypatch):
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    os.utime(log, (0, 0))
    one = reading(tmp_path / "*.log", complete_after="1 min")

    def refused(path="."):
        raise PermissionError(13, "Permission denied", path)

    assert await one.payloads() == ["1"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refused)
        # The file is open at first, and complete; after the restart it is not open.
        assert await one.payloads() == []
        await one.restart()
        assert await one.payloads() == []
    append(log, b"2\n")
    assert await one.payloads() == ["2"]


async def test_a_renamed_file_that_cannot_be_opened_is_read_on_later(reading, tmp_path, monkeypatch):
    log, renamed = tmp_path / "a.log", tmp_path / "a.old"
    log.write_bytes(b"1\n")
    one = reading(tmp_path / "*.log")
    assert await one.payloads() == ["1"]
    log.rename(renamed)
    append(renamed, b"2\n")
    opened = os.open

    def refused(path, *arguments, **named):
        if path == str(renamed):
            raise OSError(24, "Too many open files")
        return opened(path, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        await one.restart()
        assert await one.payloads() == []
    assert await one.payloads() == ["2"]


async def test_too_many_files_are_an_error(reading, tmp_path):
    for name in "abc":
        (tmp_path / name).write_bytes(b"1\n")
    one = reading(tmp_path / "*", max_files=2)
    with pytest.raises(Exception, match="paths matches more than 2 files: set max_files"):
        await one.source.poll()


# ---- places to begin and to end


async def test_the_end_is_where_reading_may_begin(reading, tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(b"old\nhalf of a line")
    one = reading(tmp_path / "*.log", start="end")
    assert await one.payloads() == []
    append(log, b" and its rest\nnew\n")
    (tmp_path / "b.log").write_bytes(b"later\n")
    await one.restart()
    assert sorted(await one.payloads()) == ["later", "new"]


async def test_a_last_line_without_a_break_counts_when_the_file_is_complete(reading, tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n2")
    os.utime(log, (0, 0))
    one = reading(log, complete_after="1 min")
    assert await one.payloads() == ["1", "2"]


@pytest.mark.parametrize("is_grown", [True, False])
async def test_complete_files_are_deleted_in_the_commit_alone(reading, tmp_path, is_grown):
    log, empty = tmp_path / "a.log", tmp_path / "b.log"
    log.write_bytes(b"1\n2\n")
    empty.touch()
    for path in (log, empty):
        os.utime(path, (0, 0))
    one = reading(tmp_path / "*.log", delete_after_read=True, complete_after="1 min")
    assert one.source.mode() == Polling(destructive=True)
    await one.batch(is_stored=False)
    batch = await one.source.poll()
    assert len(batch.records) == 2
    assert log.exists()
    if is_grown:
        append(log, b"3\n")
    await one.source.commit()
    assert (log.exists(), empty.exists()) == (is_grown, True)
    assert await one.payloads() == (["3"] if is_grown else [])


async def test_a_deletion_that_was_not_made_is_made_up_for(reading, tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    os.utime(log, (0, 0))
    one = reading(log, delete_after_read=True, complete_after="1 min")
    await one.batch(is_stored=False)
    one.state = (await one.source.poll()).state
    await one.restart()
    assert log.exists()
    assert await one.payloads() == []
    assert not log.exists()


async def test_another_file_in_the_place_of_a_deleted_one_is_read(reading, tmp_path):
    """The process was stopped after the deletion, and the state says still that it is to be made."""
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    os.utime(log, (0, 0))
    one = reading(log, delete_after_read=True, complete_after="1 min")
    await one.batch(is_stored=False)
    one.state = (await one.source.poll()).state
    # As a recycled inode looks: the same inode, and other contents of the same size.
    log.write_bytes(b"2\n")
    await one.restart()
    assert await one.payloads() == ["2"]
    assert log.exists()


async def test_a_trial_reads_at_once_and_deletes_nothing(tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    os.utime(log, (0, 0))
    source = FilesSource(FilesSettings(paths=[str(log)], delete_after_read=True))
    await source.open_read_only(None)
    assert [record.payload for record in (await source.poll()).records] == ["1"]
    await source.poll()
    await source.close()
    assert log.exists()


# ---- formats


async def test_encodings(reading, tmp_path):
    text = "\ufeffgrün\nça\n\u0a0a\u010a\n"
    for encoding in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le"):
        path = tmp_path / encoding
        path.write_bytes(text.encode(encoding))
        assert await reading(path, encoding=encoding).payloads() == ["grün", "ça", "\u0a0a\u010a"]
    (tmp_path / "latin").write_bytes("grün\n".encode("latin-1"))
    assert await reading(tmp_path / "latin", encoding="latin-1").payloads() == ["grün"]
    (record,) = await reading(tmp_path / "latin").all()
    assert record.problem.startswith(f"{tmp_path / 'latin'}, line 1: it is not utf-8")
    assert record.payload == "grün".encode("latin-1")


async def test_json_lines(reading, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n\n[2]\nnot json\n' + b"[" * 2000 + b'\n"3"\n')
    records = await reading(path, format="json_lines").all()
    assert [record.payload for record in records if record.problem is None] == [{"a": 1}, [2], "3"]
    bad = [record for record in records if record.problem is not None]
    assert [record.headers["line"] for record in bad] == [4, 5]
    assert all(f"line {record.headers['line']}: it is not JSON" in record.problem for record in bad)


@pytest.mark.parametrize("size", [300_000, 2000])
async def test_a_line_that_is_too_long_is_invalid_and_the_others_are_read(reading, tmp_path, size):
    path = tmp_path / "a.log"
    path.write_bytes(b"1\n" + b"x" * size + b"\n3\n" + b"y" * size)
    one = reading(path, max_line=1024)
    records = await one.all()
    found = [(record.headers["line"], record.payload, record.problem is None) for record in records]
    assert found[:3] == [(1, "1", True), (2, b"", False), (3, "3", True)]
    assert records[1].problem == f"{path}, line 2: it has more than 1 KiB"
    append(path, b"y\n5\n")
    await one.restart()
    rest = await one.all()
    assert [record.payload for record in records[3:] + rest if record.problem is None] == ["5"]
    assert [record.headers["line"] for record in records[3:] + rest if record.problem is not None] == [4]


async def test_csv(reading, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(
        b'id,name,price,ok\r\n1,"a ""b"",\nc",2.5,true\r\n2,,,\r\n\r\n3,d,x,1\r\n4,e\r\n5,"f" g,1,0\r\n6,h,1,F\r\n'
    )
    csv = {"types": {"id": "int", "price": "float", "ok": "bool"}}
    one = reading(path, format="csv", csv=csv, batch_size=2)
    records = await one.batch()
    await one.restart()
    records += await one.all()
    assert [record.payload for record in records if record.problem is None] == [
        {"id": 1, "name": 'a "b",\nc', "price": 2.5, "ok": True},
        {"id": 2, "name": "", "price": None, "ok": None},
        {"id": 6, "name": "h", "price": 1.0, "ok": False},
    ]
    problems = [record.problem.removeprefix(f"{path}, ") for record in records if record.problem is not None]
    assert problems[:2] == ["line 6: price = 'x' is no float", "line 7: it has 2 values, and there are 4 columns"]
    assert problems[2].startswith("line 8: ")
    assert [record.headers["line"] for record in records] == [2, 4, 6, 7, 8, 9]


async def test_numbers_of_csv_are_as_they_were_written(reading, tmp_path):
    """Regression: what JSON has no number for was null, and digits were cut."""
    cells = ("inf", "-Infinity", "nan", "1e400", "0.12345678901234567890", "1.50", "100", "7", " 2.5")
    (tmp_path / "a.csv").write_text("f\n" + "\n".join(cells) + "\n")
    records = await reading(tmp_path / "a.csv", format="csv", csv={"types": {"f": "float"}}).all()
    codec = JsonCodec(Settings())
    assert [codec.encode(record.payload).decode() for record in records] == [
        f'{{"f":{cell}}}'
        for cell in (
            '"inf"', '"-Infinity"', '"nan"', "1e400", "0.12345678901234567890", "1.50", "100.0", "7.0", "2.5",
        )
    ]  # fmt: skip
    (tmp_path / "b.csv").write_text("n\n7\n-123456789012345678901\n1_000\n٣\n")
    records = await reading(tmp_path / "b.csv", format="csv", csv={"types": {"n": "int"}}).all()
    assert [record.payload for record in records if record.problem is None] == [{"n": 7}, {"n": -123456789012345678901}]
    assert len(records) == 4


async def test_numbers_of_json_lines_are_as_they_were_written(reading, tmp_path):
    lines = ['{"a":0.12345678901234567890,"b":[1.50,1e400,1E5]}', "12345678901234567.89"]
    (tmp_path / "a.json").write_text("\n".join(lines) + "\n")
    records = await reading(tmp_path / "a.json", format="json_lines").all()
    assert [JsonCodec(Settings()).encode(record.payload).decode() for record in records] == lines


async def test_csv_without_names_and_with_other_characters(reading, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"1;'a;b'\n2;c\n")
    csv = {"columns": ["id", "name"], "delimiter": ";", "quote": "'"}
    payloads = await reading(path, format="csv", csv=csv).payloads()
    assert payloads == [{"id": "1", "name": "a;b"}, {"id": "2", "name": "c"}]


async def test_a_quote_that_is_not_closed_makes_one_line_invalid(reading, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'a,b\n1,2\n3,"x\n' + b"5,6\n" * 300)
    one = reading(path, format="csv", max_line=1024)
    records = await one.all()
    assert len(records) == 302
    assert records[1].problem == f"{path}, line 3: a quote is not closed"
    assert records[-1].payload == {"a": "5", "b": "6"}
    assert records[-1].headers["line"] == 303


async def test_a_row_that_is_not_complete_waits(reading, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'a,b\n1,"x\n')
    one = reading(path, format="csv")
    assert await one.payloads() == []
    append(path, b'y"\n')
    assert await one.payloads() == [{"a": "1", "b": "x\ny"}]


async def test_a_first_row_with_mistakes_is_reported_until_it_is_corrected(reading, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,a\n1,2\n")
    one = reading(path, format="csv")
    (record,) = await one.batch(is_stored=False)
    assert "has a name twice: name the columns in csv.columns" in record.problem
    path.write_bytes(b"a,b\n1,2\n")
    assert await one.payloads() == [{"a": "1", "b": "2"}]


def table(first: int, count: int) -> pa.Table:
    return pa.table({"id": range(first, first + count), "cents": [Decimal("1.50")] * count})


async def test_parquet(reading, tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(table(0, 10), path, row_group_size=4)
    one = reading(tmp_path / "*.parquet", format="parquet", batch_size=3)
    records = await one.batch()
    unstored = await one.batch(is_stored=False)
    await one.restart()
    records += await one.all()
    assert [record.payload["id"] for record in records] == list(range(10))
    assert ids(unstored)[0] == ids(records)[3]
    assert len(set(ids(records))) == 10
    assert records[9].headers == {"file": str(path), "line": 10}
    assert records[0].payload["cents"] == Decimal("1.50")
    await one.restart()
    assert await one.all() == []
    pq.write_table(table(50, 10), path, row_group_size=4)
    assert [payload["id"] for payload in await one.payloads()] == list(range(50, 60))


async def test_parquet_that_is_being_written_is_waited_for_and_a_damaged_one_is_invalid(reading, tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(table(0, 10), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    one = reading(path, format="parquet")
    assert await one.all() == []
    path.write_bytes(whole)
    assert len(await one.all()) == 10
    path.write_bytes(whole[:-10])
    os.utime(path, (0, 0))
    await one.restart(complete_after="1 min", delete_after_read=True)
    (record,) = await one.all()
    assert record.problem.startswith(f"{path}, line 1: it is not Parquet, or damaged")
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "settings.paths: is not set and has no default"),
        ('paths = ["a"]\nencoding = "klingon"', "'klingon' is not an encoding"),
        ('paths = ["a"]\nencoding = "utf-16"', "does not say the order of bytes: use utf-16-le or -be"),
        ('paths = ["a"]\ncsv = { delimiter = ";" }', 'csv has no effect with format = "lines"'),
        ('paths = ["a"]\nformat = "csv"\nstart = "end"', 'start = "end" has no meaning with format = "csv"'),
        ('paths = ["a"]\nformat = "csv"\ncsv = { columns = ["a", "a"] }', "columns has a twice"),
        ('paths = ["a"]\nformat = "csv"\ncsv = { columns = ["a"], types = { b = "int" } }', "types names b"),
        ('paths = ["a"]\nformat = "xml"', "'xml' is not one of lines, json_lines, csv, parquet"),
    ],
)
def test_settings_are_checked(parse, text, message):
    with pytest.raises(SettingsError) as caught:
        parse(f'[sources.a]\nplugin = "files"\nstream = "s"\ntopic = "t"\n[sources.a.settings]\n{text}\n')
    assert message in str(caught.value)


async def test_a_state_of_another_version_is_refused():
    with pytest.raises(StateVersionMismatch):
        await FilesSource(FilesSettings(paths=["x"])).open(encode_state(9, {}))


def test_times_of_parquet_are_values_of_json(parse):
    codec = parse('[sources.a]\nplugin = "random"\nstream = "s"\ntopic = "t"\n').sources["a"].codec.create()
    row = pa.table({"at": [datetime(2026, 1, 1, tzinfo=UTC)], "b": [b"x"]}).to_pylist()[0]
    assert codec.encode(row) == b'{"at":"2026-01-01T00:00:00Z","b":"eA=="}'
