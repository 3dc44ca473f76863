"""Versions in the ledger of a group: each change is a compare-and-set, and files of several machines do not fight."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_connectors.configuration import store
from headrace_connectors.configuration.configurations import ANY_STATE, Condition, Configurations, Unusable
from headrace_connectors.configuration.errors import ChangedAtOnce, ChangedMeanwhile, TooLarge
from headrace_connectors.configuration.seen import SeenTables
from headrace_connectors.configuration.store import GroupVersions
from headrace_connectors.leases import ledger
from headrace_connectors.leases.balance import changes
from headrace_connectors.leases.ledger import Configured, Entry, Ledger, Renewal, decode, encode, encode_change
from headrace_connectors.leases.member import GroupMember
from headrace_connectors.pipeline_file.pipeline import parse_pipeline
from headrace_connectors.plugins.discovery import Plugins
from headrace_connectors.versions import Author, NewVersion, Selection, VersionLog

AT = datetime(2026, 1, 2, tzinfo=UTC)
ANNA = Author("anna", "why")
TOP = '[sharing]\ngroup = "g"\n[http]\ntoken = "t"\n[http.configuration]\nenabled = true\n'
RANDOM = '[sources.made]\nplugin = "random"\nstream = "s"\ntopic = "t"\n'
PYTHON = RANDOM + '[sources.made.transforms.python]\nfunction = "copy:copy"\n'


class Topic:
    """A topic in memory, as one process sees it."""

    def __init__(self, entries: list[bytes]) -> None:
        self.entries = entries
        self.ledger = Ledger()
        self.between: Callable[[], object] = lambda: None
        """Called before an entry is stored: what others do at the same time."""

    async def append(self, entry: Entry) -> bool:
        if isinstance(entry, Configured):
            between, self.between = self.between, lambda: None
            between()
        self.entries.append(encode(entry))
        effects = [
            self.ledger.apply(offset, decode(self.entries[offset]))
            for offset in range(self.ledger.next_offset, len(self.entries))
        ]
        return effects[-1]


class Machine:
    """A process of a group on a machine of its own."""

    def __init__(self, directory: Path, entries: list[bytes]) -> None:
        self.directory = directory
        self.entries = entries
        directory.mkdir(exist_ok=True)

    async def start(self, text: str = RANDOM, top: str = TOP) -> list[Any]:
        """Start with a pipeline file; return the connectors to run."""
        pipeline = parse_pipeline(self.directory / "pipeline.toml", top + text, Plugins(), {})
        self.topic = Topic(self.entries)
        member = GroupMember(self.topic, lease_seconds=10)  # type: ignore[arg-type]
        seen = SeenTables(self.directory, "g", pipeline.file)
        self.all = Configurations(
            pipeline.definitions, pipeline.http.configuration, GroupVersions(member), seen, lambda: AT
        )
        return await self.all.open_shared()

    async def change(self, table: dict[str, Any], condition: Condition = ANY_STATE, key: str = "made") -> VersionLog:
        """Change a connector."""

        async def apply(_key: str, _spec: Any) -> None:
            pass

        return await self.all.change("sources", key, table, ANNA, condition, apply)

    @property
    def numbers(self) -> list[tuple[int, str]]:
        """Versions, and where they came from."""
        return [(one.number, one.origin) for one in self.all.log("connectors", "made").versions]


@pytest.fixture
def machines(tmp_path: Path) -> Callable[[str], Machine]:
    """Machines of a group, by name."""
    entries: list[bytes] = []
    return lambda name: Machine(tmp_path / name, entries)


def definition(seed: int) -> dict[str, Any]:
    return {"plugin": "random", "stream": "s", "topic": "t", "settings": {"seed": seed}}


async def test_the_same_file_on_several_machines_is_one_change(machines: Callable[[str], Machine]) -> None:
    """CON-78: also when they start at once."""
    one, two = machines("one"), machines("two")
    (found,) = await one.start()
    assert found.key == "made"
    await two.start()
    assert one.numbers == two.numbers == [(1, "file")]
    await one.change(definition(1))
    # The other one reads it with its next entry.
    await two.all.catch_up()
    assert two.all.outdated() == ["made"]
    spec = two.all.successor("made")
    assert spec is not None
    assert not isinstance(spec, Unusable)
    assert spec.settings.topic == "t"
    assert two.all.outdated() == []


async def test_an_older_copy_of_the_file_is_no_change(machines: Callable[[str], Machine]) -> None:
    """CON-78: a restart of the machine that has it yet undoes nothing; an edit does, and so does going back."""
    edited, newer = RANDOM + "[sources.made.settings]\nseed = 2\n", RANDOM.replace("made", "newer")
    one, two = machines("one"), machines("two")
    await one.start()
    await two.start()
    await one.start(edited + newer)
    await two.start()
    assert two.numbers == [(1, "file"), (2, "file")]
    assert (two.all.log("connectors", "newer").active or Unusable).definition is not None  # type: ignore[union-attr]
    await two.start(edited)
    assert two.numbers == [(1, "file"), (2, "file")]
    await two.start(RANDOM)
    assert two.numbers[-1] == (3, "file")
    # A machine without a memory follows decision 78.
    await machines("three").start(edited + newer)
    await two.all.catch_up()
    assert two.numbers[-1] == (4, "file")
    assert await one.start("") == []


async def test_another_change_comes_between(machines: Callable[[str], Machine]) -> None:
    """CON-76: nothing of the later one takes effect, with a condition or without."""
    one, two = machines("one"), machines("two")
    await one.start()
    await two.start()

    def between() -> None:
        log = two.topic.ledger.versions["connectors"]["made"]
        change = NewVersion(AT, Author("ben"), "http", "sources", definition(9))
        one.entries.append(encode(Configured("connectors", "made", log.epoch, encode_change(change))))

    for condition, refusal in ((Condition(1), ChangedMeanwhile), (ANY_STATE, ChangedAtOnce)):
        one.topic.between = between
        await two.all.catch_up()
        with pytest.raises(refusal, match="changed by another process at the same time"):
            await one.change(definition(1), condition)
        active = one.all.log("connectors", "made").active
        assert active is not None
        assert active.author == "ben"


async def test_a_change_without_space_is_refused(
    machines: Callable[[str], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CON-76: a snapshot of the ledger stays one message."""
    one = machines("one")
    await one.start()
    with pytest.raises(TooLarge, match="a change in a group 1048576 at most"):
        await one.change({**definition(1), "transforms": {"add_fields": {"fields": {"a": "x" * (1 << 20)}}}})
    await one.change(definition(1), key="other")
    monkeypatch.setattr(store, "_ALL_BYTES_MAX", 500)
    with pytest.raises(TooLarge, match="make the largest definitions smaller"):
        await one.change(definition(2))
    assert one.numbers == [(1, "file")]


async def test_the_file_of_another_machine_allows_nothing_here(machines: Callable[[str], Machine]) -> None:
    """CON-78: what it brings to the group runs code here only if the own file does, or allows it."""
    one, two, three = machines("one"), machines("two"), machines("three")
    await two.start()
    (found,) = await one.start(PYTHON)
    assert not isinstance(found, Unusable)
    await two.all.catch_up()
    unusable = two.all.successor("made")
    assert isinstance(unusable, Unusable)
    assert "python runs code" in unusable.reason
    (found,) = await three.start(PYTHON)
    assert not isinstance(found, Unusable)


# ---- the ledger


def configured(log: VersionLog, change: NewVersion | Selection) -> Configured:
    return Configured("connectors", log.key, log.epoch, encode_change(change))


@given(st.integers(0, 2**32))
def test_ledgers_agree_after_any_entries_and_snapshots(seed: int) -> None:
    """CON-76: stale, repeated and damaged changes have no effect; a reader that begins at a snapshot has the same."""
    draw = random.Random(seed)
    reader, copies = Ledger(), [Ledger()]
    logs = [VersionLog("a"), VersionLog("b")]
    for offset in range(60):
        log = draw.choice(logs)
        newest = reader.versions["connectors"].get(log.key, VersionLog(log.key))
        known = newest if draw.random() < 0.7 else log
        change: NewVersion | Selection = NewVersion(AT, ANNA, "http", "sources", {"n": 2**70 + offset})
        if draw.random() < 0.3:
            change = Selection(AT, ANNA, draw.randrange(1, 8))
        entry = configured(known, change)
        if draw.random() < 0.1:
            entry = Configured("connectors", log.key, known.epoch, b'{"type": "unknown"}')
        entry = decode(encode(entry))  # type: ignore[assignment]
        effects = {one.apply(offset, entry) for one in (reader, *copies)}
        assert len(effects) == 1
        if effects == {True}:
            assert reader.versions["connectors"][log.key].epoch == newest.epoch + 1
        if draw.random() < 0.1:
            copies.append(Ledger())
            snapshot = decode(encode(reader.snapshot()))
            assert isinstance(snapshot, ledger.Snapshot)
            copies[-1].restore(snapshot)
    assert all(one.versions == reader.versions for one in copies)


def test_old_versions_of_a_group_are_dropped() -> None:
    """CON-76: by number and by size; those that can be in effect again at once stay."""
    found = Ledger()

    def add(offset: int, size_bytes: int, origin: Any = "http") -> VersionLog:
        log = found.versions["connectors"].get("a", VersionLog("a"))
        change = NewVersion(AT, ANNA, origin, "sources", {"x": "y" * size_bytes})
        assert found.apply(offset, configured(log, change))
        return found.versions["connectors"]["a"]

    log = add(0, 10, "file")
    for offset in range(1, ledger.VERSIONS_MAX + 50):
        log = add(offset, 10)
    assert len(log.versions) == ledger.VERSIONS_MAX + 1
    assert log.newest_of_file is not None
    assert len(log.activations) == ledger.VERSIONS_MAX
    log = add(1000, ledger.VERSION_BYTES_MAX)
    assert [one.number for one in log.versions] == [1, log.last_number - 1, log.last_number]
    assert log.previous == log.versions[1]


def test_a_snapshot_without_versions_is_read_by_older_releases() -> None:
    """CON-76: the format grows with the first change alone."""
    found = Ledger()
    assert found.snapshot().format == 1
    found.apply(0, configured(VersionLog("a"), NewVersion(AT, ANNA, "http", "sources", {})))
    assert found.snapshot().format == 2


def test_a_connector_that_few_can_run_is_claimed() -> None:
    """CON-77: members that can run others only, or none, do not keep the rest from being claimed."""
    found = Ledger()
    listed = {"x": "abcde", "y": "abcde", "p": "a", "q": "a", "r": ""}
    for offset, (member, names) in enumerate(listed.items()):
        found.apply(offset, Renewal(member, member, 10.0, tuple(names)))
    offset = len(listed)
    for _ in range(6):
        for member in listed:
            wanted = changes(found, member, list(listed))
            for name in wanted.claims:
                assert found.apply(offset, ledger.Claim(member, name, found.fence(name)))
                offset += 1
            for name in wanted.releases:
                assert found.apply(offset, ledger.Release(member, name, found.fence(name)))
                offset += 1
    assert {name for name, lease in found.leases.items() if lease.owner is not None} == set("abcde")
    assert all(changes(found, member, list(listed)) == ([], []) for member in listed)
