"""The audit trail: contents, limits and reading."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from headrace_gateway.audit.audit_log import DIRECTORY, AuditLog
from headrace_gateway.audit.config import AuditConfig
from headrace_gateway.audit.events import ACCESS, CHANGES, LOGINS, OWN, TOPICS, Event, decoded, encoded, recordable
from headrace_gateway.audit.files import Series, newest_first, numbered
from headrace_gateway.audit.limits import FAILURES, EventLimits
from headrace_gateway.audit.metrics import TrailCollector
from headrace_gateway.audit.reading import AuditFilter, read
from headrace_gateway.audit.requests import change_of
from headrace_node.connections.caller import CALLER, Caller
from headrace_proto.catalog.v1 import User
from headrace_proto.control.v1 import ChangePassword, CreateUser, Request
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, CreateStream, RenewNodeLease
from headrace_settings import Size


class Users:
    version = 1

    def user(self, user_id: int) -> User | None:
        return User(id=user_id, username="ann") if user_id == 7 else None


def trail(directory: Path, /, **settings: object) -> AuditLog:
    moments = itertools.count(1_000_000)
    config = AuditConfig(**settings)  # type: ignore[arg-type]
    return AuditLog(config, directory, gateway="g", accounts=Users(), clock=lambda: next(moments))  # type: ignore[arg-type]


def metric(written: AuditLog, name: str, **labels: str) -> float:
    """Return the value of a metric."""
    registry = CollectorRegistry()
    registry.register(TrailCollector(written))
    value = registry.get_sample_value(f"headrace_audit_{name}_total", labels)
    assert value is not None
    return value


def events(directory: Path, **wanted: object) -> list[Event]:
    return read(directory / DIRECTORY, AuditFilter(**wanted), 1000)  # type: ignore[arg-type]


def read_series(directory: Path, series: str) -> list[Event]:
    """Return the events of a series, newest first."""
    found = map(decoded, newest_first(directory / DIRECTORY, series))
    return [event for event in found if event is not None]


async def test_everything_stands_in_the_trail_when_it_is_answered(tmp_path: Path) -> None:
    """Events contain user, address, protocol, action, subject and result."""
    CALLER.set(Caller("10.0.0.1:4000", "tcp"))
    written = trail(tmp_path)
    async with written.working():
        await written.logged_in("login_with_password", Status.OK, username="ann", user_id=7)
        (login,) = events(tmp_path)
        assert (login.username, login.address, login.transport, login.result) == ("ann", "10.0.0.1:4000", "tcp", "ok")
        begun = await written.begun("create_stream", {"name": "s"}, user_id=7, client_id=3)
        (change,) = events(tmp_path, event="change")
        assert (change.result, change.username, change.client_id) == ("begun", "ann", 3)
        await written.ended(begun, Status.OK)
        (change,) = events(tmp_path, event="change")
        assert (change.result, change.subject, change.user_id) == ("ok", {"name": "s"}, 7)
        await written.refused("create_user", Status.UNAUTHORIZED, user_id=8)
    found = [(event.event, event.action, event.result) for event in events(tmp_path)]
    assert found == [
        ("refusal", "create_user", "Unauthorized"),
        ("change", "create_stream", "ok"),
        ("login", "login_with_password", "ok"),
    ]
    assert [event.action for event in events(tmp_path, result="failed")] == ["create_user"]
    assert [event.action for event in events(tmp_path, user="ann", event="login")] == ["login_with_password"]
    assert [event.action for event in events(tmp_path, address="10.0.0.1", since=login.at + 1)][-1] == "create_stream"
    assert events(tmp_path, until=login.at) == []


async def test_many_at_a_time_are_all_there(tmp_path: Path) -> None:
    written = trail(tmp_path)
    async with written.working():
        login = (written.logged_in("login", Status.OK, username=f"user {n}", user_id=n) for n in range(300))
        await asyncio.gather(*login)
        assert {event.username for event in events(tmp_path)} == {f"user {n}" for n in range(300)}
    await written.logged_in("login", Status.OK, username="late", user_id=9)
    assert events(tmp_path)[0].username == "late", "the process stops, and what is asked for is recorded all the same"


async def test_the_trail_is_in_the_directory_of_the_settings(tmp_path: Path) -> None:
    """The data directory of a gateway process is removed at its end."""
    written = trail(tmp_path / "data", directory=tmp_path / "kept" / "trail")
    async with written.working():
        await written.changed("delete_segments", {"name": "0/0/0"}, user_id=7)
    assert not (tmp_path / "data").exists()
    assert written.directory == tmp_path / "kept" / "trail"
    assert [event.action for event in read(written.directory, AuditFilter(), 10)] == ["delete_segments"]


async def test_a_flood_of_failures_is_counted_and_not_written(tmp_path: Path) -> None:
    """Recorded changes are not displaced either: they have their own files."""
    written = trail(tmp_path, max_file_size=Size.parse("8 KiB"), max_files=2)
    async with written.working():
        await written.changed("delete_segments", {"name": "0/0/0"}, user_id=7)
        for n in range(2000):
            CALLER.set(Caller(f"10.0.{n % 200}.1:1", "tcp"))
            await written.logged_in("login", Status.INVALID_CREDENTIALS, username="x", user_id=None)
    lines = list(newest_first(tmp_path / DIRECTORY, ACCESS))
    assert len(lines) < 300
    assert metric(written, "suppressed_events") >= 1700
    assert len(events(tmp_path, event="change")) == 1
    files = list((tmp_path / DIRECTORY).glob(f"{ACCESS}-*"))
    assert len(files) == 2
    assert all(file.stat().st_size <= 8 * 1024 for file in files)


async def test_a_user_does_not_displace_what_others_did(tmp_path: Path) -> None:
    """Each class of events has its own files, whatever one user can do as often as it likes."""
    written = trail(tmp_path, max_file_size=Size.parse("4 KiB"), max_files=2)
    async with written.working():
        kept = [
            ("create_user", {"username": "backdoor"}),
            ("change_password", {"user_id": 0}),
            ("disconnect_client", {"name": "5"}),
        ]
        for action, subject in kept:
            await written.changed(action, subject, user_id=7)
        await written.logged_in("login", Status.INVALID_CREDENTIALS, username="root", user_id=None)
        for _ in range(200):
            await written.changed("create_access_token", {"name": "x"}, user_id=8)
            await written.changed("delete_consumer_group", {"group_id": 1}, user_id=8)
            await written.changed("change_password", {"user_id": 8}, user_id=8)
            await written.changed("purge_topic", {"topic_id": 1}, user_id=8)
            await written.changed("delete_segments", {"name": "0/0/0"}, user_id=8)
            await written.logged_in("login", Status.OK, username="bob", user_id=8)
    directory = tmp_path / DIRECTORY
    assert [event.action for event in events(tmp_path, user="ann")] == [action for action, _ in reversed(kept)]
    assert len(events(tmp_path, event="login", result="failed")) == 1
    assert [len(numbered(directory, series)) for series in (CHANGES, TOPICS, OWN)] == [1, 2, 2]


async def test_logins_of_one_user_from_one_address_are_counted(tmp_path: Path) -> None:
    """Logins from another address are written: another person may know the password."""
    written = trail(tmp_path)
    async with written.working():
        for n in range(1000):
            CALLER.set(Caller(f"[2001:db8::{n:x}]:1", "tcp"))
            await written.logged_in("login", Status.OK, username="ann", user_id=7)
        CALLER.set(Caller("10.0.0.9:1", "tcp"))
        await written.logged_in("login", Status.OK, username="ann", user_id=7)
        CALLER.set(Caller("10.0.0.9:2", "tcp"))
        await written.logged_in("login", Status.OK, username="bob", user_id=8)
    last, elsewhere, *earlier = events(tmp_path, event="login")
    assert (last.username, elsewhere.username, len(earlier)) == ("bob", "ann", 5)
    assert (elsewhere.address, elsewhere.suppressed) == ("10.0.0.9:1", 995)
    assert metric(written, "suppressed_events") == 995


async def test_failed_logins_do_not_suppress_refusals(tmp_path: Path) -> None:
    written = trail(tmp_path)
    async with written.working():
        for n in range(500):
            CALLER.set(Caller(f"10.0.{n % 100}.1:1", "tcp"))
            await written.logged_in("login", Status.INVALID_CREDENTIALS, username="x", user_id=None)
        await written.refused("create_user", Status.UNAUTHORIZED, user_id=7)
    assert len(events(tmp_path, event="refusal")) == 1


async def test_a_full_queue_loses_no_event_of_another_class(tmp_path: Path) -> None:
    written = trail(tmp_path)
    async with written.working():
        flood = [written.changed("create_access_token", {"name": "x"}, user_id=8) for _ in range(6000)]
        await asyncio.gather(*flood, written.changed("delete_user", {"user_id": 8}, user_id=7))
    assert metric(written, "lost_events", reason="queue") == 6000 - 4096
    assert len(events(tmp_path, action="delete_user")) == 1


async def test_a_series_that_cannot_be_written_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY / f"{OWN}-0000000001.jsonl").mkdir(parents=True)
    written = trail(tmp_path)
    async with written.working():
        await asyncio.gather(
            written.changed("create_access_token", {"name": "x"}, user_id=8),
            written.changed("delete_user", {"user_id": 8}, user_id=7),
        )
    assert metric(written, "lost_events", reason="disk") == 1
    assert [event.action for event in read_series(tmp_path, CHANGES)] == ["delete_user"]


def test_files_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """Earlier versions had all changes in one series, and all logins in another."""
    directory = tmp_path / DIRECTORY
    for name, event in ((CHANGES, "change"), (ACCESS, "login")):
        series = Series(directory, name, file_bytes_max=1000, files_max=3)
        series.add([encoded(Event(id="a", at=5, event=event, action="create_access_token", result="ok"))])  # type: ignore[arg-type]
        series.close()
    assert {event.event for event in read(directory, AuditFilter(), 10)} == {"change", "login"}


def test_what_was_not_written_is_said_with_the_next() -> None:
    limits = EventLimits(*FAILURES)
    taken = [limits.take(1_000_000, "here", None) for _ in range(100)]
    assert taken.count(None) == 80
    assert limits.take(1_000_000, "there", None) == 80
    assert limits.take(1_000_000 + 5_000_000, "here", None) == 0, "one more after five seconds"


def test_files_follow_each_other_and_the_oldest_go(tmp_path: Path) -> None:
    series = Series(tmp_path, CHANGES, file_bytes_max=100, files_max=3)
    for number in range(50):
        series.add([b"line %02d of the trail\n" % number])
    series.close()
    assert [number for number, _ in numbered(tmp_path, CHANGES)] == [11, 12, 13]
    assert [line[5:7] for line in newest_first(tmp_path, CHANGES)] == [b"%02d" % n for n in range(49, 39, -1)]


def test_what_a_crash_has_torn_off_is_cut(tmp_path: Path) -> None:
    series = Series(tmp_path, CHANGES, file_bytes_max=1000, files_max=3)
    series.add([b"whole\n"])
    series.close()
    ((_, path),) = numbered(tmp_path, CHANGES)
    with path.open("ab") as file:
        file.write(b'{"id":"torn')
    assert list(newest_first(tmp_path, CHANGES)) == [b"whole"]
    again = Series(tmp_path, CHANGES, file_bytes_max=1000, files_max=3)
    again.add([b"next\n"])
    again.close()
    assert path.read_bytes() == b"whole\nnext\n"


def test_a_damaged_line_is_passed_over(tmp_path: Path) -> None:
    event = Event(id="a", at=5, event="login", action="x", result="ok")
    assert decoded(encoded(event).rstrip(b"\n")) == event
    directory = tmp_path / DIRECTORY
    series = Series(directory, ACCESS, file_bytes_max=1000, files_max=3)
    series.add([b"no json\n", encoded(event)])
    series.close()
    assert read(directory, AuditFilter(), 10) == [event]


async def test_a_full_disk_is_reported_and_does_not_stop_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / DIRECTORY).write_text("no directory can be made here")
    written = trail(tmp_path)
    async with written.working():
        await written.logged_in("login", Status.OK, username="ann", user_id=7)
        for _ in range(3):
            await written.logged_in("login", Status.OK, username="ann", user_id=7)
    assert "audit trail lost 1 events" in caplog.text
    assert len(caplog.records) == 1, "those that follow share a line, after a while"
    assert metric(written, "lost_events", reason="disk") == 4
    assert metric(written, "lost_events", reason="queue") == 0


async def test_an_event_that_cannot_be_written_is_reported_and_costs_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = trail(tmp_path)
    async with written.working():
        for _ in range(2):
            await asyncio.gather(
                written.refused("GET /ws", Status.UNAUTHENTICATED, user_id=None, subject={"origin": "http://\udcff"}),
                written.changed("create_user", {"name": "bob"}, user_id=7),
                written.refused("GET /ws", Status.UNAUTHENTICATED, user_id=None, subject={"origin": "http://a"}),
            )
    subjects = [event.subject for event in events(tmp_path)]
    assert subjects.count({"name": "bob"}) == subjects.count({"origin": "http://a"}) == 2
    assert len(subjects) == 4
    assert "surrogates not allowed" in caplog.text
    assert metric(written, "lost_events", reason="form") == 2


async def test_any_failure_of_a_write_is_reported_and_later_events_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = trail(tmp_path)
    async with written.working():
        with monkeypatch.context() as context:
            context.setattr(Series, "add", lambda *_: (_ for _ in ()).throw(RuntimeError("no thread can be started")))
            await written.logged_in("login", Status.OK, username="ann", user_id=7)
        await written.logged_in("login", Status.OK, username="bob", user_id=8)
        assert [event.username for event in events(tmp_path)] == ["bob"]
    assert metric(written, "lost_events", reason="disk") == 1


def test_headers_are_recorded_escaped_and_cut() -> None:
    assert recordable("http://\udcff") == r"http://\udcff"
    assert recordable("\udcff" * 300) == (r"\udcff" * 300)[:256]
    assert recordable("é" * 300) == "é" * 256


async def test_what_does_not_fit_into_the_queue_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written = trail(tmp_path)
    async with written.working():
        # The write starts after all of them have been queued.
        logins = (written.logged_in("login", Status.OK, username=f"user {n}", user_id=n) for n in range(5000))
        await asyncio.gather(*logins)
    lost = metric(written, "lost_events", reason="queue")
    assert len(list(newest_first(tmp_path / DIRECTORY, LOGINS))) == 5000 - lost
    assert lost == 5000 - 4096
    assert "too many events are queued" in caplog.text
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request(command=Command(create_stream=CreateStream(name="s"))), ("create_stream", {"name": "s"})),
        (
            Request(create_user=CreateUser(username="bob", password=b"hidden")),
            ("create_user", {"username": "bob"}),
        ),
        (
            Request(change_password=ChangePassword(user_id=3, current_password=b"hidden", new_password=b"hidden")),
            ("change_password", {"user_id": 3}),
        ),
        (Request(command=Command(renew_node_lease=RenewNodeLease(node_id=1))), None),
    ],
)
def test_changes_are_described_without_their_secrets(request_: Request, expected: object) -> None:
    found = change_of(request_)
    assert found == expected
    assert "hidden" not in repr(found)
