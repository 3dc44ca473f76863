"""Archives in an object store: over a socket, with credentials, and with typical failures of such stores.

The server is moto (see `object_server`). The tests cover the requests and responses of the S3 protocol and the handling
of failures, but not the behaviour of S3 under load.
"""

from __future__ import annotations

import datetime
import os
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from archived import KEY, NOON, Message, batch, described, messages, write
from object_server import LOST, UNCONDITIONAL, Asked, ObjectServer, environment, unused_address

from pyspark_headrace.jobs.environment import RETRY_TIMEOUT
from pyspark_headrace.jobs.tables.archive import AlreadyCommitted, Archive, Committed
from pyspark_headrace.jobs.tables.entries import path_of
from pyspark_headrace.jobs.tables.errors import (
    ArchiveError,
    ManifestError,
    MissingFileError,
    StoreError,
)
from pyspark_headrace.jobs.tables.failures import said
from pyspark_headrace.jobs.tables.reading import batches
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.tables.writing import FileOptions

HOUR = datetime.timedelta(hours=1)
PLACE = "s3://lake/some/shop"


@pytest.fixture(scope="module")
def objects() -> Iterator[ObjectServer]:
    with ObjectServer() as server:
        yield server


@pytest.fixture
def lake(objects: ObjectServer) -> Iterator[ObjectServer]:
    """The server with an empty bucket, and environment variables for it."""
    objects.empty("lake")
    given = objects.settings() | objects.credentials() | {RETRY_TIMEOUT: "150ms"}
    with environment(given):
        yield objects
    objects.fault = None


def is_put(asked: Asked, part: str) -> bool:
    return asked.method == "PUT" and part in asked.path


def test_an_archive_in_a_bucket(lake: ObjectServer) -> None:
    left, right = Archive.open(PLACE), Archive.open(f"{PLACE}/")
    files = write(left, messages(0, 100))
    assert left.commit(files, job="test", query="q", batch=0) == Committed(1)
    assert right.commit(files, job="test", query="q", batch=0) == AlreadyCommitted(0)
    (merged,) = write(right, messages(0, 100))
    assert right.commit([merged], remove=[files[0].path], job="compact") == Committed(2)
    state = Archive.open(PLACE.replace("s3:", "s3a:")).state()
    assert set(state.files) == {merged.path}
    assert left.read_table(merged).num_rows == 100
    later = datetime.datetime.now(datetime.UTC) + 2 * HOUR
    assert left.orphans(HOUR) == []
    assert [stored.path for stored in left.orphans(HOUR, now=later)] == [files[0].path]
    left.delete([files[0].path, files[0].path, "stream=a/none"])
    with pytest.raises(MissingFileError):
        left.read_table(files[0])
    assert left.orphans(HOUR, now=later) == []
    # Every entry was written conditionally.
    entries = [asked for asked in lake.requests if is_put(asked, "_headrace/manifest")]
    assert [asked.if_none_match for asked in entries] == ["*", "*"]
    assert all(name.startswith("some/shop/") for name in lake.keys("lake"))


def test_names_of_every_kind(lake: ObjectServer) -> None:
    """Check names that have to be escaped in URLs, and signed in escaped form."""
    archive = Archive.open(PLACE)
    for number, name in enumerate(("größe", "a b+c", "100%", "x=y&z?#", "~'(!)*", "日本")):
        key = KEY._replace(stream=name, topic=name, partition=number)
        (file,) = write(archive, messages(0, 10), key=key)
        archive.commit([file], job=name)
        assert archive.read_table(file).num_rows == 10
    found = {stored.path for stored in archive.store.listing() if stored.path.startswith("stream=")}
    assert found == set(archive.state().files)
    later = datetime.datetime.now(datetime.UTC) + 2 * HOUR
    archive.commit([], remove=list(found), job="expire")
    orphans = [stored.path for stored in archive.orphans(HOUR, now=later)]
    assert set(orphans) == found
    archive.delete(orphans)
    assert [name for name in lake.keys("lake") if "stream=" in name] == []
    # Includes the location itself. Without signatures, which the server computes wrongly for such queries.
    with lake.letting_all_in():
        odd = Archive.open("s3://lake/a b/größe=1+2")
        odd.commit(write(odd, messages(0, 10)), job="test")
        assert Archive.open("s3://lake/a b/größe=1+2").state().rows == 10
        assert {name.partition("/_headrace/")[0] for name in lake.keys("lake") if "manifest" in name} == {
            "some/shop",
            "a b/größe=1+2",
        }


def test_more_than_a_page_of_names(lake: ObjectServer) -> None:
    archive = Archive.open(PLACE)
    paths = [described(number, number + 1, token=number).path for number in range(2345)]
    for path in paths:
        lake.backend.put_object("lake", f"some/shop/{path}", b"x")
    # An object next to the archive, not part of it.
    lake.backend.put_object("lake", "some/shopping/list", b"x")
    begins = len(lake.requests)
    assert sorted(stored.path for stored in archive.store.listing()) == sorted(paths)
    assert len(lake.requests) - begins == 3
    later = datetime.datetime.now(datetime.UTC) + 2 * HOUR
    orphans = [stored.path for stored in archive.orphans(HOUR, now=later)]
    assert sorted(orphans) == sorted(paths)
    archive.delete(orphans)
    assert list(lake.keys("lake")) == ["some/shopping/list"]


def test_large_files_are_written_and_read_in_parts(lake: ObjectServer) -> None:
    archive = Archive.open(PLACE)
    of = [Message(offset, NOON + offset, b"k", os.urandom(1 << 20)) for offset in range(25)]
    (file,) = write(archive, of, options=FileOptions(compression="none"))
    parts = [asked for asked in lake.requests if asked.method == "PUT" and "partNumber" in asked.query]
    assert len(parts) == 3
    assert lake.uploads("lake") == 0
    archive.commit([file], job="test")
    begins = len(lake.requests)
    assert sum(rows.num_rows for rows in batches(archive.store, file, ["offset", "key"])) == 25
    few = [asked for asked in lake.requests[begins:] if asked.method == "GET"]
    assert few
    assert all(asked.range for asked in few)
    assert archive.read_table(file).column("value").to_pylist() == [message.value for message in of]
    # File semantics, independent of read-ahead of the library.
    source = archive.store.input(file.path)
    content = lake.keys("lake")[f"some/shop/{file.path}"]
    assert source.read(10) + source.read(3_000_000) == content[:3_000_010]
    source.seek(-1000, 2)
    assert source.read(3_000_000) == content[-1000:]
    assert source.read(1) == b""
    # A discarded file does not exist.
    writer = archive.writer(KEY, 1000, FileOptions(compression="none"))
    writer.write(batch(of))
    writer.abandon()
    assert len([name for name in lake.keys("lake") if "stream=" in name]) == 1


def test_writers_that_race_for_the_same_entry(lake: ObjectServer) -> None:
    """Check that each number has a single writer, despite concurrent attempts. The server serializes requests."""
    together, at_the_server = threading.Barrier(4), threading.Barrier(4)
    contested = [path_of(number) for number in range(1, 33, 4)]
    errors: list[Exception] = []

    def commit(partition: int) -> None:
        try:
            archive, key = Archive.open(PLACE), KEY._replace(partition=partition)
            for number in range(8):
                together.wait(30)
                archive.commit([described(number, number + 1, key=key)], job="t", query=f"q{partition}", batch=number)
        except (ArchiveError, threading.BrokenBarrierError) as error:
            errors.append(error)
            together.abort()

    racers = [threading.Thread(target=commit, args=(partition,)) for partition in range(4)]

    def meet(asked: Asked) -> None:
        # Hold all writers until each has sent its request.
        if any(is_put(asked, path) for path in contested):
            at_the_server.wait(30)

    with lake.failing(meet):
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
    assert errors == []
    state = Archive.open(PLACE).state()
    assert (state.version, state.rows, state.batches) == (32, 32, {f"q{partition}": 7 for partition in range(4)})
    asked = Counter(asked.path for asked in lake.requests if is_put(asked, "_headrace/manifest"))
    assert len(asked) == 32
    assert [asked[f"/lake/some/shop/{path}"] for path in contested] == [4] * 8


def test_a_conflict_is_no_loss(lake: ObjectServer) -> None:
    """Check 409, with which S3 may answer colliding conditional writes, none of which need have succeeded."""
    archive = Archive.open(PLACE)
    conflicts = iter([409, 409])
    with lake.failing(lambda asked: next(conflicts, None) if is_put(asked, path_of(1)) else None):
        assert archive.commit([described(0, 10)], job="test", query="q", batch=0) == Committed(1)
    assert Archive.open(PLACE).state().rows == 10


def test_an_answer_that_never_comes(lake: ObjectServer) -> None:
    """Check an entry that was written although its response was lost: the writer retries, or the micro-batch is
    repeated.
    """
    archive = Archive.open(PLACE)
    archive.commit([described(0, 10)], job="test", query="q", batch=0)
    losses = iter([LOST])
    with lake.failing(lambda asked: next(losses, None) if is_put(asked, path_of(2)) else None):
        try:
            done = archive.commit([described(10, 20)], job="test", query="q", batch=1)
        except StoreError as error:
            assert path_of(2) in str(error)  # noqa: PT017 - one of two ways
            done = Archive.open(PLACE).commit([described(10, 20, token=1)], job="test", query="q", batch=1)
    assert done in {Committed(2), AlreadyCommitted(1)}
    state = Archive.open(PLACE).state()
    assert (state.version, state.rows) == (2, 20)


def test_a_store_that_is_busy_for_a_while(lake: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that every kind of request is retried."""
    monkeypatch.setenv(RETRY_TIMEOUT, "20s")
    seen: Counter[tuple[str, str]] = Counter()

    def busy(asked: Asked) -> int | None:
        kind = (asked.method, asked.query.partition("=")[0])
        seen[kind] += 1
        return 503 if seen[kind] < 3 else None

    of = [Message(offset, NOON + offset, b"k", os.urandom(1 << 20)) for offset in range(12)]
    with lake.failing(busy):
        archive = Archive.open(PLACE)
        (file,) = write(archive, of, options=FileOptions(compression="none"))
        archive.commit([file], job="test")
        archive.store.check_written({file.path: file.bytes})
        assert archive.read_table(file).num_rows == 12
        archive.delete([file.path])
    assert {method for method, _ in seen} == {"GET", "HEAD", "PUT", "POST"}
    assert lake.uploads("lake") == 0


def refused(call: Callable[..., object], *parts: str, of: Sequence[object] = ()) -> str:
    """Return the text of an error, including the errors that have caused it."""
    with pytest.raises(StoreError) as raised:
        call(*of)
    text = "".join(traceback.format_exception(raised.value))
    for part in parts:
        assert part in str(raised.value)
    assert "Debug source" not in text
    return text


def test_a_store_that_goes_away(lake: ObjectServer) -> None:
    """Check that unreadable data are not reported as damaged or missing, and that failed writes leave nothing."""
    archive = Archive.open(PLACE)
    of = [Message(offset, NOON + offset, b"k", os.urandom(1 << 20)) for offset in range(24)]
    (file,) = write(archive, of, options=FileOptions(compression="none"))
    archive.commit([file], job="test")
    source = archive.store.input(file.path)
    output = archive.store.output("stream=s/part")
    output.write(bytes(11 << 20))
    lake.stop()
    try:
        place, entry = f"{PLACE}: {file.path}: ", f"{PLACE}: {path_of(2)}: "
        refused(archive.state, entry, "after", "retries")
        refused(lambda: archive.commit([described(30, 40)], job="test"), entry)
        refused(lambda: archive.read_table(file), place)
        refused(lambda: source.read(10), place)
        refused(lambda: archive.store.check_written({file.path: 1}), place)
        refused(lambda: archive.orphans(HOUR), PLACE)
        refused(lambda: archive.delete([file.path]), place)
        refused(lambda: write(archive, messages(30, 10)), "p0-30-40-")
        refused(lambda: (output.write(bytes(50 << 20)), output.close()), "stream=s/part")
        refused(lambda: Archive.open(PLACE).state(), f"{PLACE}: _headrace/manifest: ")
    finally:
        lake.start()
    assert archive.commit([described(30, 40)], job="test") == Committed(2)
    assert len([name for name in lake.keys("lake") if "stream=" in name]) == 1
    assert archive.read_table(file).num_rows == 24


def test_a_store_that_looks_at_no_condition(lake: ObjectServer) -> None:
    """Check that a store without conditional writes is detected before the log has an entry."""
    with lake.failing(lambda asked: UNCONDITIONAL if asked.if_none_match else None):
        refused(lambda: Archive.open(PLACE).commit([described(0, 10)], job="test"), PLACE, "If-None-Match")
    assert [name for name in lake.keys("lake") if "manifest" in name] == []
    # The test object is created once.
    for number in range(2):
        Archive.open(PLACE).commit([described(number, number + 1)], job="test")
    probes = [asked for asked in lake.requests if asked.path.endswith("/exclusive")]
    assert [asked.if_none_match for asked in probes[-3:]] == ["*", "*", "*"]
    assert lake.keys("lake")["some/shop/_headrace/exclusive"] == b""


def test_what_tasks_have_written_somewhere_else(lake: ObjectServer, tmp_path: Path) -> None:
    """Check that the driver verifies files before the commit, in case tasks have written to another store."""
    for uri in (PLACE, str(tmp_path)):
        archive = Archive.open(uri)
        (file,) = write(archive, messages(0, 10))
        archive.store.check_written({file.path: file.bytes})
        archive.store.check_written({})
        check = archive.store.check_written
        refused(check, f"{uri}: {file.path}: has {file.bytes} bytes", of=[{file.path: 3}])
        refused(check, f"{uri}: stream=s/none: does not exist", of=[{"stream=s/none": 3}])


def test_places_that_are_not_there_or_not_for_all(lake: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that each error names location and reason, and no secrets."""
    secret = lake.credentials()["AWS_SECRET_ACCESS_KEY"]
    for uri in ("s3://nobody", "s3://nobody/some/prefix"):
        refused(Archive.open(uri).state, f"{uri}: _headrace/manifest: ", "NoSuchBucket")
        refused(Store.open(uri).read, f"{uri}: a: ", "NoSuchBucket", of=["a"])
        refused(Store.open(uri).create, f"{uri}: a: ", "NoSuchBucket", of=["a", b""])
        output = Store.open(uri).output("a")
        output.write(b"x")
        refused(output.close, f"{uri}: a: ", "NoSuchBucket")
    for variable, value, code in (
        ("AWS_SECRET_ACCESS_KEY", "not/that+secret", "SignatureDoesNotMatch"),
        ("AWS_ACCESS_KEY_ID", "AKIANOBODY", "InvalidAccessKeyId"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            for call in (Archive.open(PLACE).state, lambda: Store.open(PLACE).create("a", b"")):
                text = refused(call, PLACE, "403", code)
                assert secret not in text
                assert "not/that+secret" not in text
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", unused_address())
        refused(Archive.open(PLACE).state, PLACE, "error sending request")
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        patch.setenv("AWS_ALLOW_HTTP", "false")
        refused(Archive.open(PLACE).state, PLACE)
    with monkeypatch.context() as patch:
        patch.delenv("AWS_ACCESS_KEY_ID")
        patch.delenv("AWS_SECRET_ACCESS_KEY")
        # Metadata endpoint from which AWS machines request the keys of their role.
        patch.setenv("AWS_METADATA_ENDPOINT", "http://169.254.169.254.invalid")
        refused(Archive.open(PLACE).state, PLACE, "there are no credentials")
    with monkeypatch.context() as patch:
        patch.setenv(RETRY_TIMEOUT, "for ever")
        refused(lambda: Archive.open(PLACE), f"{RETRY_TIMEOUT}: 'for ever' is not")
    for uri in ("memory:///a", "http://127.0.0.1/a", "hdfs://a/b"):
        refused(Store.open, f"{uri}: this is not a path, file:///..., s3://...", of=[uri])
    # None of these attempts has written anything.
    assert lake.keys("lake") == {}


def test_what_a_store_says_is_not_repeated_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that error texts are filtered. Unlike moto, S3 returns the signed string, with the session token."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/run/token")
    answer = (
        '<?xml version="1.0"?>\n<Error><Code>SignatureDoesNotMatch</Code><Message>Not &lt;that&gt;</Message>'
        "<CanonicalRequest>GET\nx-amz-security-token:a-token</CanonicalRequest></Error>\n\nDebug source:\nAll of it"
    )
    error = OSError(f"Error performing GET https://user:word@h/a/b?sig=x%2F - 403 Forbidden: {answer}")
    expected = "Error performing GET https://h/a/b - 403 Forbidden: SignatureDoesNotMatch: Not <that>"
    assert said(error) == expected
    assert said(ValueError("a-secret and a-token of /run/token\n  here")) == "... and ... of /run/token here"
    assert said(ValueError("x" * 5000)) == "x" * 600
    assert said(ValueError("502: <html><body>gateway</body></html>")) == "502:"
    # Form of errors of the Delta Lake library.
    assert said(OSError("\x1b[31mlist\x1b[0m \x1b[1;31m>\x1b[0m 403")) == "list > 403"
    assert said(TimeoutError()) == "TimeoutError"


def test_a_damaged_log_in_a_bucket(lake: ObjectServer) -> None:
    archive = Archive.open(PLACE)
    for number in range(3):
        archive.commit([described(number, number + 1)], job="test")
    lake.backend.delete_object("lake", f"some/shop/{path_of(2)}")
    with pytest.raises(ManifestError, match=r"_headrace/manifest/0{19}2.json: is missing"):
        Archive.open(PLACE).state()
