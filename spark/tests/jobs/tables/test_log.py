"""Log of an archive: each commit happens once, despite concurrent writers and crashes."""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from archived import KEY, described, messages, write
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from obstore.store import MemoryStore

from pyspark_headrace.jobs.tables import manifest
from pyspark_headrace.jobs.tables.archive import AlreadyCommitted, Archive, Committed
from pyspark_headrace.jobs.tables.entries import DIRECTORY, path_of
from pyspark_headrace.jobs.tables.errors import (
    ArchiveError,
    ManifestError,
    MissingFileError,
    OverlapError,
    ReplacedError,
    StoreError,
)
from pyspark_headrace.jobs.tables.files import ArchivedFile
from pyspark_headrace.jobs.tables.stores import Store

HOUR = datetime.timedelta(hours=1)


def opened(directory: Path) -> Archive:
    return Archive.open(str(directory), create=True)


def files_of(directory: Path) -> set[str]:
    return set(Archive.open(str(directory)).state().files)


def test_a_batch_is_in_the_archive_once_however_often_it_comes(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    assert archive.last_batch("q") is None
    assert archive.commit([described(0, 10)], job="test", query="q", batch=0) == Committed(1)
    # Repeated commit of a driver that died before it learned the result; by the same object and by another one.
    again = [described(0, 10, token=1)]
    assert archive.commit(again, job="test", query="q", batch=0) == AlreadyCommitted(0)
    assert opened(tmp_path).commit(again, job="test", query="q", batch=0) == AlreadyCommitted(0)
    assert archive.commit([described(10, 20)], job="test", query="q", batch=3) == Committed(2)
    assert opened(tmp_path).commit([described(20, 30)], job="test", query="q", batch=2) == AlreadyCommitted(3)
    # An empty commit writes no entry.
    assert archive.commit([], job="test", query="q", batch=4) == Committed(2)
    assert archive.commit([], job="test") == Committed(2)
    state = opened(tmp_path).state()
    assert (state.version, state.rows, state.batches) == (2, 20, {"q": 3})
    assert [(file.start, file.end) for file in state.partitions[KEY]] == [(0, 10), (10, 20)]
    assert archive.last_batch("q") == 3


def test_no_message_is_there_twice(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    archive.commit([described(0, 10), described(20, 30)], job="test", query="q", batch=0)
    for start, end in ((9, 12), (19, 21), (0, 10), (5, 6), (0, 40)):
        with pytest.raises(OverlapError, match=r"shop/orders, partition 0: offsets .* twice"):
            archive.commit([described(start, end, token=2)], job="other")
    with pytest.raises(OverlapError):
        archive.commit([described(40, 50, token=1), described(49, 60)], job="test")
    # The gap, another partition, and the partition after a purge, do not overlap.
    archive.commit([described(10, 20)], job="other")
    archive.commit([described(0, 10, key=KEY._replace(partition=1))], job="other")
    archive.commit([described(0, 10, key=KEY._replace(generation="3.1"), token=7)], job="other")
    # Replaced files are not committed any more.
    removed = [described(0, 10).path, described(10, 20).path]
    archive.commit([described(0, 20)], remove=removed, job="compact")
    with pytest.raises(ReplacedError, match="are no longer referenced"):
        archive.commit([described(0, 20, token=9)], remove=removed, job="compact")
    assert [(file.start, file.end) for file in archive.state().partitions[KEY]] == [(0, 20), (20, 30)]


def test_snapshots_change_nothing_but_how_much_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "SNAPSHOT_EVERY", 8)
    archive = opened(tmp_path)
    for number in range(20):
        archive.commit([described(number, number + 1)], job="test", query=f"q{number % 3}", batch=number)
    archive.commit([described(0, 2, token=1)], remove=[described(0, 1).path, described(1, 2).path], job="compact")
    snapshots = sorted(tmp_path.glob(f"{DIRECTORY}/*.snapshot.json"))
    assert [path.name for path in snapshots] == [f"{number:020d}.snapshot.json" for number in (8, 16)]
    expected = archive.state()
    read: list[str] = []
    original = Store.read
    monkeypatch.setattr(Store, "read", lambda self, path: (read.append(path), original(self, path))[1])
    assert opened(tmp_path).state() == expected
    assert read == [path_of(16, snapshot=True), *map(path_of, range(17, 23))]
    # Snapshots are optional.
    snapshots[1].write_bytes(snapshots[1].read_bytes()[:-5])
    assert opened(tmp_path).state() == expected
    snapshots[0].write_text('{"v":1,"version":7,"files":[],"batches":{},"removed":{}}')
    assert opened(tmp_path).state() == expected
    for path in snapshots:
        path.unlink()
    assert opened(tmp_path).state() == expected
    # Entries before a snapshot are optional, later ones are required.
    archive.commit([described(100, 101)], job="test")
    (tmp_path / path_of(21)).unlink()
    with pytest.raises(ManifestError, match=r"_headrace/manifest/0{18}21.json: is missing"):
        opened(tmp_path).state()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_entry_is_named(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        archive = Archive.open(directory)
        for number in range(3):
            archive.commit([described(number, number + 1)], job="tést", query="q", batch=number)
        number = data.draw(st.integers(1, 3), label="entry")
        path = Path(directory) / path_of(number)
        content = path.read_bytes()
        damaged = data.draw(
            st.one_of(
                st.integers(0, len(content) - 1).map(lambda end: content[:end]),
                st.binary(max_size=50),
                st.sampled_from(sorted(json.loads(content))).flatmap(
                    lambda key: st.sampled_from([None, 7, -1, "x", [1], {}, [None], "2026-01-01T00:00:00"]).map(
                        lambda value: json.dumps(json.loads(content) | {key: value}).encode()
                    )
                ),
                st.sampled_from(sorted(json.loads(content)["add"][0])).flatmap(
                    lambda key: st.sampled_from([None, -7, "x", "../../etc/passwd", [], 1.5, True]).map(
                        lambda value: _with_file(content, key, value)
                    )
                ),
            ),
            label="damaged",
        )
        path.write_bytes(damaged)
        before = {described(number, number + 1).path for number in range(3)}
        archive = Archive.open(directory)
        try:
            state = archive.state()
        except ManifestError:
            with pytest.raises(ManifestError, match=rf"^{DIRECTORY}/0{{19}}[{number}-3].json: "):
                archive.commit([described(7, 8)], job="test")
        else:
            # Text in the same form, such as the name of the job, does not become a file.
            assert state.version == 3
            assert len(state.files) <= 3
            assert json.loads(damaged)["v"] == 1
            assert number != 1 or set(state.files) - before <= {json.loads(damaged)["add"][0]["path"]}


def _with_file(content: bytes, key: str, value: object) -> bytes:
    entry = json.loads(content)
    entry["add"][0][key] = value
    return json.dumps(entry).encode()


def test_a_later_format_is_not_misread(tmp_path: Path) -> None:
    opened(tmp_path).commit([described(0, 1)], job="test")
    path = tmp_path / path_of(1)
    path.write_text(path.read_text().replace('"v":1', '"v":2'))
    with pytest.raises(ManifestError, match="is of version 2, which this program does not know"):
        opened(tmp_path).state()


def test_removing_what_is_not_there_is_damage(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    archive.commit([described(0, 1)], job="test")
    archive.commit([], remove=[described(0, 1).path], job="test")
    path = tmp_path / path_of(2)
    (tmp_path / path_of(3)).write_bytes(path.read_bytes())
    with pytest.raises(ManifestError, match="removes stream=shop"):
        opened(tmp_path).state()
    (tmp_path / path_of(3)).write_bytes((tmp_path / path_of(1)).read_bytes())
    with pytest.raises(ManifestError, match="adds stream=shop"):
        opened(tmp_path).state()


class TwoWriters(RuleBasedStateMachine):
    """Two objects with different states of one log, compared with a model of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.directory = Path(self.place.name)
        self.archives = [opened(self.directory), opened(self.directory)]
        self.files: dict[str, ArchivedFile] = {}
        self.batches: dict[str, int] = {}
        self.next = 0
        self.token = 0

    @initialize()
    def snapshots_are_frequent(self) -> None:
        manifest.SNAPSHOT_EVERY = 3

    def teardown(self) -> None:
        manifest.SNAPSHOT_EVERY = 64
        self.place.cleanup()

    @rule(who=st.integers(0, 1), query=st.sampled_from(["a", "b"]), batch=st.integers(0, 6), rows=st.integers(1, 5))
    def add(self, who: int, query: str, batch: int, rows: int) -> None:
        self.token += 1
        file = described(self.next, self.next + rows, token=self.token)
        done = self.archives[who].commit([file], job="test", query=query, batch=batch)
        if batch <= self.batches.get(query, -1):
            assert done == AlreadyCommitted(self.batches[query])
        else:
            assert isinstance(done, Committed)
            self.files[file.path] = file
            self.batches[query] = batch
            self.next += rows

    @rule(who=st.integers(0, 1), data=st.data())
    def replace(self, who: int, data: st.DataObject) -> None:
        ordered = sorted(self.files.values(), key=lambda file: file.start)
        if not ordered:
            return
        begin = data.draw(st.integers(0, len(ordered) - 1))
        chosen = ordered[begin : begin + data.draw(st.integers(1, 3))]
        self.token += 1
        merged = described(chosen[0].start, chosen[-1].end, token=self.token)
        self.archives[who].commit([merged], remove=[file.path for file in chosen], job="compact")
        for file in chosen:
            del self.files[file.path]
        self.files[merged.path] = merged
        with pytest.raises(ReplacedError):
            self.archives[1 - who].commit([], remove=[chosen[0].path], job="expire")

    @invariant()
    def all_readers_see_the_same(self) -> None:
        fresh = opened(self.directory).state()
        assert fresh.files == self.files
        assert fresh.batches == self.batches
        assert self.archives[0].state() == fresh


def test_two_writers_agree() -> None:
    run_state_machine_as_test(TwoWriters, settings=settings(max_examples=25, stateful_step_count=15, deadline=None))


WRITER = """
import sys
from archived import KEY, described
from pyspark_headrace.jobs.tables.archive import Archive
from pyspark_headrace.jobs.tables.errors import OverlapError

directory, who, batches = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
archive = Archive.open(directory)
print("ready", flush=True)
sys.stdin.readline()
for batch in range(batches):
    # Every batch of a query is written by two processes; each of them has a partition of its own besides.
    key = KEY._replace(partition=who // 2)
    file = described(batch * 10, batch * 10 + 10, key=key, token=who)
    archive.commit([file], job="t", query=f"q{who // 2}", batch=batch)
    own = KEY._replace(partition=10 + who)
    archive.commit([described(batch, batch + 1, key=own)], job="t")
"""


def test_processes_that_write_at_once(tmp_path: Path) -> None:
    writers, batches = 4, 10
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(who), str(batches)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        for who in range(writers)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.communicate("go\n", timeout=120)
        assert process.returncode == 0
    state = Archive.open(str(tmp_path)).state()
    assert state.version == writers // 2 * batches + writers * batches, "every commit is one entry"
    assert state.batches == {"q0": batches - 1, "q1": batches - 1}
    for key, files in state.partitions.items():
        assert files[0].start == 0
        assert all(left.end == right.start for left, right in pairwise(files)), key
        assert files[-1].end == (batches * 10 if key.partition < 10 else batches)
    assert not list(tmp_path.rglob("*#*"))


def test_threads_that_add_and_replace_at_once(tmp_path: Path) -> None:
    errors: list[ArchiveError] = []
    done = threading.Event()
    refused = 0

    def appending(partition: int) -> None:
        archive = opened(tmp_path)
        key = KEY._replace(partition=partition)
        for batch in range(15):
            archive.commit([described(batch, batch + 1, key=key)], job="t", query=f"q{partition}", batch=batch)

    def merging(token: int) -> None:
        nonlocal refused
        archive = opened(tmp_path)
        while not done.is_set():
            for key, files in archive.state().partitions.items():
                if len(files) >= 3:
                    token += 2
                    merged = described(files[0].start, files[-1].end, key=key, token=token)
                    try:
                        archive.commit([merged], remove=[file.path for file in files], job="compact")
                    except ReplacedError:
                        refused += 1

    def guarded(work: object, *arguments: int) -> None:
        try:
            work(*arguments)  # type: ignore[operator]
        except ArchiveError as error:
            errors.append(error)

    adding = [threading.Thread(target=guarded, args=(appending, partition)) for partition in range(3)]
    replacing = [threading.Thread(target=guarded, args=(merging, token)) for token in (1, 2)]
    for thread in (*adding, *replacing):
        thread.start()
    for thread in adding:
        thread.join()
    done.set()
    for thread in replacing:
        thread.join()
    assert not errors
    state = opened(tmp_path).state()
    assert state.rows == 45
    for files in state.partitions.values():
        assert [files[0].start, *(file.end for file in files)][-1] == 15
        assert all(left.end == right.start for left, right in pairwise(files))


DYING = """
import os, signal, sys
from pathlib import Path
from archived import KEY, NOON, Message, batch, messages, write
from pyspark_headrace.jobs.tables import stores
from pyspark_headrace.jobs.tables.archive import Archive

directory, step = sys.argv[1:3]
archive = Archive.open(directory)
archive.state()


def die(*arguments, **more):
    os.kill(os.getpid(), signal.SIGKILL)


if step == "in a file":
    writer = archive.writer(KEY, 1000)
    for offset in range(1000):
        writer.write(batch([Message(offset, NOON, None, os.urandom(1_000_000))]))
        if list(Path(directory).rglob("*#*")):
            die()
files = write(archive, messages(0, 100))
if step == "before the entry":
    die()
if step == "before the entry has its name":
    os.link = die
if step == "when the entry has its name":
    stores.sync_directories = die
archive.commit(files, job="test", query="q", batch=0)
die()
"""


@pytest.mark.parametrize(
    ("step", "is_committed", "left"),
    [
        ("in a file", False, "parquet#"),
        ("before the entry", False, "parquet"),
        ("before the entry has its name", False, "json#"),
        ("when the entry has its name", True, None),
        ("behind the commit", True, None),
    ],
)
def test_a_writer_dies_at_a_step(tmp_path: Path, step: str, is_committed: bool, left: str | None) -> None:
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    opened(tmp_path)
    command = [sys.executable, "-c", DYING, str(tmp_path), step]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    archive = opened(tmp_path)
    state = archive.state()
    assert state.rows == (100 if is_committed else 0)
    # The next driver repeats the batch.
    again = archive.commit(write(archive, messages(0, 100)), job="test", query="q", batch=0)
    assert isinstance(again, AlreadyCommitted) is is_committed
    (file,) = archive.state().files.values()
    assert archive.read_table(file).num_rows == 100
    # Only unreferenced files that are old enough are orphans.
    assert archive.orphans(HOUR) == []
    later = datetime.datetime.now(datetime.UTC) + 2 * HOUR
    orphans = [stored.path for stored in archive.orphans(HOUR, now=later)]
    assert file.path not in orphans
    assert any(left in path for path in orphans) if left else len(orphans) == 1
    archive.delete(orphans)
    assert archive.orphans(HOUR, now=later) == []
    assert archive.read_table(file).num_rows == 100
    assert not list(tmp_path.rglob("*#*"))


def test_an_answer_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = opened(tmp_path)
    original = Store.create

    def refused_after_all(store: Store, path: str, content: bytes) -> bool:
        original(store, path, content)
        return False

    # A client that retries is refused because of its own first attempt.
    monkeypatch.setattr(Store, "create", refused_after_all)
    assert archive.commit([described(0, 10)], job="test") == Committed(1)
    assert archive.commit([described(10, 20)], remove=[described(0, 10).path], job="test") == Committed(2)

    def broken(store: Store, path: str, content: bytes) -> bool:
        original(store, path, content)
        raise StoreError("the connection is gone")

    monkeypatch.setattr(Store, "create", broken)
    with pytest.raises(StoreError):
        archive.commit([described(20, 30)], job="test", query="q", batch=0)
    monkeypatch.undo()
    assert archive.commit([described(20, 30)], job="test", query="q", batch=0) == AlreadyCommitted(0)
    assert len(files_of(tmp_path)) == 2


def test_a_writer_that_is_always_late_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_headrace.jobs.tables.archive._WAIT_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(Store, "create", lambda *arguments: False)
    with pytest.raises(ArchiveError, match="other writers committed first, 200 times"):
        opened(tmp_path).commit([described(0, 10)], job="test")


def test_an_object_store() -> None:
    objects = MemoryStore()
    left, right = Archive(Store("memory:", objects)), Archive(Store("memory:", objects))
    files = write(left, messages(0, 100))
    assert left.commit(files, job="test", query="q", batch=0) == Committed(1)
    assert right.commit(files, job="test", query="q", batch=0) == AlreadyCommitted(0)
    (merged,) = write(right, messages(0, 100))
    # The cached state is older than the log.
    left.state()
    right.commit([merged], remove=[files[0].path], job="compact")
    with pytest.raises(ReplacedError):
        left.commit([], remove=[files[0].path], job="expire")
    assert left.read_table(merged).num_rows == 100
    later = datetime.datetime.now(datetime.UTC) + 2 * HOUR
    assert [stored.path for stored in left.orphans(HOUR, now=later)] == [files[0].path]
    left.delete([files[0].path])
    with pytest.raises(MissingFileError):
        left.read_table(files[0])
    assert left.orphans(HOUR, now=later) == []


def test_places(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="the directory does not exist"):
        Archive.open(str(tmp_path / "none"))
    with pytest.raises(StoreError, match="nonsense"):
        Archive.open("nonsense://somewhere")
    odd = tmp_path / "ä b"
    Archive.open(str(odd), create=True).commit([described(0, 1)], job="test")
    assert Archive.open(odd.as_uri()).state().rows == 1
