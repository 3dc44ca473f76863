"""Archives in an object store: over a socket, with credentials, and with typical failures of such stores.

The server is moto (see `object_server`). The tests cover the requests and responses of the S3 protocol and the handling
of failures, but not the behaviour of S3 under load.
"""

from __future__ import annotations

import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from archived import KEY, NOON, Message, batch, commit, listed, messages, opened, write, writer
from archiving import archived_rows
from object_server import LOST, UNCONDITIONAL, Asked, ObjectServer, environment, unused_address

from pyspark_headrace.jobs.environment import RETRY_TIMEOUT
from pyspark_headrace.jobs.tables.delta import DeltaLakeTable
from pyspark_headrace.jobs.tables.errors import StoreError
from pyspark_headrace.jobs.tables.failures import said
from pyspark_headrace.jobs.tables.files import ArchivedFile
from pyspark_headrace.jobs.tables.reading import read
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.tables.table import Batch
from pyspark_headrace.jobs.tables.writing import FileOptions

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


def large(count: int) -> tuple[list[Message], FileOptions]:
    """Messages of a file that is written in parts."""
    of = [Message(offset, NOON + offset, b"k", os.urandom(1 << 20)) for offset in range(count)]
    return of, FileOptions(compression="none")


def count_of(file: ArchivedFile) -> int:
    """Read a file, and return the number of its messages."""
    found = read(Store.open(PLACE), [listed(file)], file.partition, (file.start, file.end), ["offset", "value"])
    return sum(rows.num_rows for rows in found)


def test_names_of_every_kind(lake: ObjectServer) -> None:
    """Check names that have to be escaped in URLs, in the log of the table, and signed in escaped form."""
    for number, name in enumerate(("größe", "a b+c", "100%", "x=y&z?#", "~'(!)*", "日本")):
        (file,) = write(PLACE, messages(0, 10), key=KEY._replace(stream=name, topic=name, partition=number))
        commit(PLACE, [file])
        assert count_of(file) == 10
    table = DeltaLakeTable(PLACE.replace("s3:", "s3a:"))
    there = {stored.path for stored in Store.open(PLACE).listing() if stored.path.startswith("stream=")}
    assert {file.path for file in table.files()} == there
    assert archived_rows(PLACE).num_rows == 60
    assert all(name.startswith("some/shop/") for name in lake.keys("lake"))
    # Includes the location itself. Without signatures, which the server computes wrongly for such queries.
    with lake.letting_all_in():
        odd = "s3://lake/a b/größe=1+2"
        commit(odd, write(odd, messages(0, 10)))
        assert archived_rows(odd).num_rows == 10
        assert {file.path for file in opened(odd).files()} <= {stored.path for stored in Store.open(odd).listing()}
        assert len([name for name in lake.keys("lake") if name.startswith("a b/größe=1+2/_delta_log/")]) == 2


def test_more_than_a_page_of_names(lake: ObjectServer) -> None:
    paths = [f"_headrace/manifest/{number:020d}.json" for number in range(2345)]
    for path in paths:
        lake.backend.put_object("lake", f"some/shop/{path}", b"x")
    # An object next to the archive, not part of it.
    lake.backend.put_object("lake", "some/shopping/list", b"x")
    begins = len(lake.requests)
    assert sorted(stored.path for stored in Store.open(PLACE).listing()) == paths
    assert len(lake.requests) - begins == 3


def test_large_files_are_written_and_read_in_parts(lake: ObjectServer) -> None:
    of, options = large(25)
    (file,) = write(PLACE, of, options=options)
    parts = [asked for asked in lake.requests if asked.method == "PUT" and "partNumber" in asked.query]
    assert len(parts) == 3
    assert lake.uploads("lake") == 0
    begins = len(lake.requests)
    assert count_of(file) == 25
    few = [asked for asked in lake.requests[begins:] if asked.method == "GET"]
    assert few
    assert all(asked.range for asked in few)
    # File semantics, independent of read-ahead of the library.
    source = Store.open(PLACE).input(file.path)
    content = lake.keys("lake")[f"some/shop/{file.path}"]
    assert source.read(10) + source.read(3_000_000) == content[:3_000_010]
    source.seek(-1000, 2)
    assert source.read(3_000_000) == content[-1000:]
    assert source.read(1) == b""
    # A discarded file does not exist.
    discarded = writer(PLACE, 1000, options=options)
    discarded.write(batch(of))
    discarded.abandon()
    assert len([name for name in lake.keys("lake") if "stream=" in name]) == 1


def test_a_conflict_is_no_loss(lake: ObjectServer) -> None:
    """Check 409, with which S3 may answer colliding conditional writes, none of which need have succeeded."""
    table = opened(PLACE)
    (file,) = write(PLACE, messages(0, 10))
    conflicts = iter([409, 409])
    with lake.failing(lambda asked: next(conflicts, None) if is_put(asked, "_delta_log/") else None):
        assert table.commit(Batch(job="test", query="q", number=0, files=[file], ranges={KEY: (0, 10)}))
    assert archived_rows(PLACE).num_rows == 10


def test_an_answer_that_never_comes(lake: ObjectServer) -> None:
    """Check a commit that was written although its response was lost: the writer finds it, or the micro-batch is
    repeated.
    """
    table = opened(PLACE)
    (file,) = write(PLACE, messages(0, 10))
    one = Batch(job="test", query="q", number=0, files=[file], ranges={KEY: (0, 10)})
    losses = iter([LOST])
    with lake.failing(lambda asked: next(losses, None) if is_put(asked, "_delta_log/") else None):
        try:
            table.commit(one)
        except StoreError:
            assert not table.commit(one)
    assert not opened(PLACE).commit(one)
    assert archived_rows(PLACE).num_rows == 10


def test_a_store_that_is_busy_for_a_while(lake: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that every kind of request is retried."""
    monkeypatch.setenv(RETRY_TIMEOUT, "20s")
    seen: Counter[tuple[str, str]] = Counter()

    def busy(asked: Asked) -> int | None:
        kind = (asked.method, asked.query.partition("=")[0])
        seen[kind] += 1
        return 503 if seen[kind] < 3 else None

    of, options = large(12)
    with lake.failing(busy):
        (file,) = write(PLACE, of, options=options)
        Store.open(PLACE).check_written({file.path: file.bytes})
        assert count_of(file) == 12
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
    of, options = large(24)
    (file,) = write(PLACE, of, options=options)
    commit(PLACE, [file])
    table, store = opened(PLACE), Store.open(PLACE)
    source = store.input(file.path)
    output = store.output("stream=s/part")
    output.write(bytes(11 << 20))
    lake.stop()
    try:
        place = f"{PLACE}: {file.path}: "
        refused(table.files, f"{PLACE}: ")
        refused(lambda: DeltaLakeTable(PLACE), f"{PLACE}: ")
        refused(lambda: count_of(file), place)
        refused(lambda: source.read(10), place)
        refused(lambda: store.check_written({file.path: 1}), place)
        refused(lambda: list(store.listing()), PLACE)
        refused(lambda: write(PLACE, messages(30, 10)), "p0-30-40-")
        refused(lambda: (output.write(bytes(50 << 20)), output.close()), "stream=s/part")
    finally:
        lake.start()
    assert len([name for name in lake.keys("lake") if "stream=" in name]) == 1
    assert count_of(file) == 24


def test_a_store_that_looks_at_no_condition(lake: ObjectServer) -> None:
    """Check that a store without conditional writes is detected before the log of a table has an entry."""
    with lake.failing(lambda asked: UNCONDITIONAL if asked.if_none_match else None):
        refused(lambda: opened(PLACE), PLACE, "If-None-Match")
    assert list(lake.keys("lake")) == ["some/shop/_headrace/exclusive"]
    # The test object is created once.
    for _ in range(2):
        opened(PLACE)
    assert lake.keys("lake")["some/shop/_headrace/exclusive"] == b""


def test_what_tasks_have_written_somewhere_else(lake: ObjectServer, tmp_path: Path) -> None:
    """Check that the driver verifies files before the commit, in case tasks have written to another store."""
    for uri in (PLACE, str(tmp_path)):
        (file,) = write(uri, messages(0, 10))
        check = Store.open(uri).check_written
        check({file.path: file.bytes})
        check({})
        refused(check, f"{uri}: {file.path}: has {file.bytes} bytes", of=[{file.path: 3}])
        refused(check, f"{uri}: stream=s/none: does not exist", of=[{"stream=s/none": 3}])


def test_places_that_are_not_there_or_not_for_all(lake: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that each error names location and reason, and no secrets."""

    def look() -> object:
        return Store.open(PLACE).read("a")

    secret = lake.credentials()["AWS_SECRET_ACCESS_KEY"]
    for uri in ("s3://nobody", "s3://nobody/some/prefix"):
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
            for call in (look, lambda: Store.open(PLACE).create("a", b""), lambda: opened(PLACE)):
                text = refused(call, PLACE, "403", code)
                assert secret not in text
                assert "not/that+secret" not in text
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", unused_address())
        refused(look, PLACE, "error sending request")
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        patch.setenv("AWS_ALLOW_HTTP", "false")
        refused(look, PLACE)
    with monkeypatch.context() as patch:
        patch.delenv("AWS_ACCESS_KEY_ID")
        patch.delenv("AWS_SECRET_ACCESS_KEY")
        # Metadata endpoint from which AWS machines request the keys of their role.
        patch.setenv("AWS_METADATA_ENDPOINT", "http://169.254.169.254.invalid")
        refused(look, PLACE, "there are no credentials")
    with monkeypatch.context() as patch:
        patch.setenv(RETRY_TIMEOUT, "for ever")
        refused(look, f"{RETRY_TIMEOUT}: 'for ever' is not")
    for uri in ("memory:///a", "http://127.0.0.1/a", "hdfs://a/b"):
        refused(Store.open, f"{uri}: this is not a path, file:///..., s3://...", of=[uri])
    # None of these attempts has written anything.
    assert lake.keys("lake") == {}


def test_directories(tmp_path: Path) -> None:
    refused(Store.open, "the directory does not exist", of=[str(tmp_path / "none")])
    odd = tmp_path / "ä b"
    commit(odd, write(odd, messages(0, 1)))
    assert DeltaLakeTable(odd.as_uri()).files()[0].rows == 1
    assert not Store.open(str(odd)).create("_delta_log/00000000000000000001.json", b"")


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
