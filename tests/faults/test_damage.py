"""Damaged files: repairable damage is repaired, other damage is reported and never served, all else works (LOG-11, 12,
14).

One server opens all partitions, each damaged in a different way; failures are named at the end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.faults import segment_files
from tests.faults.conftest import CONSUMER_OFFSET, MESSAGES_COUNT, NEIGHBOUR, Prepared, Victim, payload
from tests.faults.segment_files import HEADER_BYTES, INDEX_ENTRY_BYTES, append, cut, flip

killed_alone = pytest.mark.parametrize("template", ["killed"], indirect=True)
"""Tests of what a stop leaves in the same form: the tail and the indexes of the open segment alone differ."""


class Findings:
    """Failures of many cases."""

    def __init__(self) -> None:
        self._wrong: dict[str, str] = {}

    @contextmanager
    def of(self, case: object) -> Iterator[None]:
        """Record a failure of this case and continue with the next one."""
        try:
            yield
        except AssertionError as error:
            self._wrong[str(case)] = str(error)[:500]

    def assert_none(self) -> None:
        """Check that no case has failed."""
        assert not self._wrong, "\n".join(f"{case}: {wrong}" for case, wrong in self._wrong.items())


# ---- the tail


def _next_message(victim: Victim) -> bytes:
    """Return a message that could follow the last one."""
    last = segment_files.messages(victim.open_segment)[-1]
    message = bytearray(victim.open_segment.read_bytes()[last.position :])
    message[24:32] = MESSAGES_COUNT.to_bytes(8, "little")
    return bytes(message)


def _tear(victim: Victim, kept: int) -> int:
    return _add(victim, _next_message(victim)[:kept])


def _add(victim: Victim, noise: bytes) -> int:
    append(victim.open_segment, noise)
    return MESSAGES_COUNT


def _add_an_older_message(victim: Victim) -> int:
    log = victim.open_segment
    return _add(victim, log.read_bytes()[: segment_files.messages(log)[0].size])


def _add_an_empty_segment(victim: Victim) -> int:
    for suffix in ("log", "index"):
        (victim.directory / f"{MESSAGES_COUNT:020}.{suffix}").touch()
    return MESSAGES_COUNT


TAILS: dict[str, Callable[[Victim], int]] = {
    **{f"{kept} bytes of a message": partial(_tear, kept=kept) for kept in (1, 63, 64, 65, -1)},
    "a zero": partial(_add, noise=b"\0"),
    "zeros": partial(_add, noise=bytes(4096)),
    "ones": partial(_add, noise=b"\xff" * 200),
    "noise": partial(_add, noise=random.Random(5).randbytes(10_000)),
    "an older message": _add_an_older_message,
    "an empty segment": _add_an_empty_segment,
}


def test_torn_tails_are_cut(prepared: Prepared) -> None:
    """LOG-11: complete messages stay, an incomplete one is cut, and the next message takes its place."""
    victims = dict(zip(TAILS, prepared.victims(len(TAILS)), strict=True))
    counts = {name: damage(victims[name]) for name, damage in TAILS.items()}
    torn = {
        name: b"".join(log.read_bytes() for log in segment_files.logs(victims[name].directory))[
            count * (HEADER_BYTES + 900) :
        ]
        for name, count in counts.items()
    }
    findings = Findings()
    with prepared.start() as connection:
        for name, victim in victims.items():
            with findings.of(name):
                size = sum(log.stat().st_size for log in segment_files.logs(victim.directory))
                assert size == counts[name] * (HEADER_BYTES + 900), "the log is not what its whole messages are"
                kept = b"".join(path.read_bytes() for path in victim.directory.glob("*.cut-*"))
                assert kept == torn[name], "what was cut is not kept"
                victim.assert_complete(connection, counts[name])
        prepared.assert_the_rest_works(connection)
    with prepared.restart(kill=True) as connection:
        for name, victim in victims.items():
            with findings.of(f"{name}, after another restart"):
                victim.assert_complete(connection, counts[name] + 1)
    findings.assert_none()


@pytest.mark.parametrize("has_index", [True, False])
def test_what_was_on_the_device_is_not_a_torn_tail(prepared: Prepared, has_index: bool) -> None:
    """LOG-11, LOG-12: the manifest says how far the log was on the device. Less than that is a loss: it is reported,
    and no offset is used again.
    """
    kept_bytes = {"at a message": 0, "in a header": 30, "in a payload": 100, "before the last byte": -1}
    cases = [(lost, where) for lost in (1, 2, 12, 20) for where in kept_bytes]
    victims = dict(zip(cases, prepared.victims(len(cases)), strict=True))
    for (lost, where), victim in victims.items():
        message = segment_files.messages(victim.open_segment)[-lost]
        cut(victim.open_segment, message.position + kept_bytes[where] % message.size)
        if not has_index:
            victim.open_segment.with_suffix(".index").unlink(missing_ok=True)
    findings = Findings()
    with prepared.start() as connection:
        for case, victim in victims.items():
            with findings.of(case):
                kept = MESSAGES_COUNT - case[0]
                answers = victim.read_each(connection)
                assert answers[:kept] == victim.expected(kept)
                assert all(isinstance(answer, Status) for answer in answers[kept:])
                connection.send("s", "t", victim.number, b"new")
                (last,) = connection.poll("s", "t", victim.number, Strategy.LAST, count=1).messages
                assert (last.offset, last.payload) == (MESSAGES_COUNT, b"new")
                words = (f"0/0/{victim.number}:", f"offset {kept}")
                eventually(f"a line with {words}", lambda words=words: prepared.log_lines(*words))
        prepared.assert_the_rest_works(connection)
    findings.assert_none()


# ---- the index

INDEX_DAMAGE: dict[str, Callable[[Path, Path], object]] = {
    "missing": lambda index, _: index.unlink(),
    "empty": lambda index, _: cut(index, 0),
    "cut": lambda index, _: cut(index, max(0, index.stat().st_size - INDEX_ENTRY_BYTES - 5)),
    "noise": lambda index, _: index.write_bytes(random.Random(1).randbytes(10 * INDEX_ENTRY_BYTES + 3)),
    "another partition's": lambda index, other: index.write_bytes(other.read_bytes()),
}
WHICH: dict[str, Callable[[Victim], list[Path]]] = {
    "all": lambda victim: segment_files.logs(victim.directory),
    "sealed": lambda victim: [victim.sealed],
    "open": lambda victim: [victim.open_segment],
}


def assert_found_in_every_way(connection: RawConnection, victim: Victim) -> None:
    """Poll all messages at once, one by one, and the first of each batch by its timestamp."""
    assert victim.read_each(connection) == victim.expected()
    messages = connection.poll("s", "t", victim.number, Strategy.OFFSET, 0, 1000).messages
    assert [message.payload for message in messages[:MESSAGES_COUNT]] == victim.expected()
    for start in range(0, MESSAGES_COUNT, 30):
        moment = messages[start].timestamp
        (found,) = connection.poll("s", "t", victim.number, Strategy.TIMESTAMP, moment, 1).messages
        assert found == next(message for message in messages if message.timestamp == moment)


def test_indexes_are_rebuilt(prepared: Prepared) -> None:
    """LOG-11, LOG-14: the log is authoritative, whatever happens to its index."""
    cases = [(which, how) for which in WHICH for how in INDEX_DAMAGE]
    victims = dict(zip(cases, prepared.victims(len(cases)), strict=True))
    neighbour = prepared.victim(NEIGHBOUR)
    for (which, how), victim in victims.items():
        for log in WHICH[which](victim):
            index = log.with_suffix(".index")
            INDEX_DAMAGE[how](index, neighbour.directory / index.name)
    findings = Findings()
    with prepared.start() as connection:
        for case, victim in victims.items():
            with findings.of(case):
                assert_found_in_every_way(connection, victim)
                victim.assert_complete(connection)
        prepared.assert_the_rest_works(connection)
    with prepared.restart() as connection:
        for case, victim in victims.items():
            with findings.of((*case, "after another restart")):
                assert_found_in_every_way(connection, victim)
                if "open" in case or "all" in case:
                    index = victim.open_segment.with_suffix(".index")
                    assert index.stat().st_size >= INDEX_ENTRY_BYTES, "the index was not written again"
    findings.assert_none()


def test_flipped_bytes_in_indexes(prepared: Prepared) -> None:
    """LOG-14: an index never overrides its log; every message is served."""
    cases = [
        (which, entry, byte)
        for which in ("sealed", "open")
        for entry in ("first", "middle", "last")
        for byte in (0, 7, 8, 15, 16, 24, 31)
    ]
    victims = dict(zip(cases, prepared.victims(len(cases)), strict=True))
    for (which, entry, byte), victim in victims.items():
        log = victim.sealed if which == "sealed" else victim.open_segment
        index = log.with_suffix(".index")
        entries = index.stat().st_size // INDEX_ENTRY_BYTES
        assert entries >= 1, index
        place = {"first": 0, "middle": entries // 2, "last": entries - 1}[entry]
        flip(index, place * INDEX_ENTRY_BYTES + byte)
    findings = Findings()
    with prepared.start() as connection:
        for case, victim in victims.items():
            with findings.of(case):
                assert_found_in_every_way(connection, victim)
                victim.assert_complete(connection)
    findings.assert_none()


# ---- messages

PLACES = {
    "checksum": 0,
    "id": 10,
    "offset": 24,
    "timestamp": 33,
    "origin timestamp": 45,
    "headers length": 48,
    "payload length": 53,
    "payload length, highest byte": 55,
    "reserved": 60,
    "payload": HEADER_BYTES + 100,
    "last byte of the payload": -1,
}


@killed_alone
def test_flipped_bytes_in_sealed_segments(prepared: Prepared) -> None:
    """LOG-12: damaged messages are refused with their status and never served; the messages around them are served."""
    cases = [(nth, place) for nth in (0, 17, -1) for place in PLACES]
    victims = dict(zip(cases, prepared.victims(len(cases)), strict=True))
    damaged_offsets = {}
    for (nth, place), victim in victims.items():
        message = segment_files.messages(victim.sealed)[nth]
        flip(victim.sealed, message.position + PLACES[place] % message.size)
        damaged_offsets[nth, place] = message.offset
    findings = Findings()
    with prepared.start() as connection:
        for case, victim in victims.items():
            with findings.of(case):
                assert_damaged_at(connection, victim, damaged_offsets[case])
        prepared.assert_the_rest_works(connection)
    with prepared.restart() as connection:
        for case, victim in victims.items():
            with findings.of((*case, "after another restart")):
                assert_damaged_at(connection, victim, damaged_offsets[case])
    findings.assert_none()


def assert_damaged_at(connection: RawConnection, victim: Victim, damaged: int) -> None:
    """Check that exactly one message is refused, every other one is served, and new ones are stored."""
    answers = victim.expected()
    answers[damaged] = Status.INVALID_MESSAGE_CHECKSUM
    for _ in range(2):
        assert victim.read_each(connection) == answers
    over = connection.request(Code.POLL_MESSAGES, victim.poll_request(Strategy.OFFSET, damaged - 5, 50))
    if over.status == Status.OK:
        assert int.from_bytes(over.payload[12:16], "little") <= 5, "more messages than there are before the damage"
    else:
        assert over.status == Status.INVALID_MESSAGE_CHECKSUM
    behind = connection.poll("s", "t", victim.number, Strategy.OFFSET, damaged + 1, 1000)
    assert behind.payloads[: MESSAGES_COUNT - damaged - 1] == victim.expected()[damaged + 1 :]
    connection.send("s", "t", victim.number, b"new")
    assert connection.poll("s", "t", victim.number, Strategy.LAST, count=1).payloads == [b"new"]


@killed_alone
def test_damage_is_reported(prepared: Prepared) -> None:
    """LOG-12: a log line names the partition, the offset and the file."""
    victim = prepared.victim(3)
    message = segment_files.messages(victim.sealed)[10]
    flip(victim.sealed, message.position + HEADER_BYTES)
    words = ("0/0/3", str(message.offset), victim.sealed.name)
    with prepared.start() as connection:
        status = connection.status(Code.POLL_MESSAGES, victim.poll_request(Strategy.OFFSET, message.offset, 1))
        assert status == Status.INVALID_MESSAGE_CHECKSUM
        eventually(f"a line with {words}", lambda: prepared.log_lines(*words))


@killed_alone
def test_a_consumer_gets_past_the_damage(prepared: Prepared) -> None:
    """LOG-14, LOG-15: no unseen message is stored as read; a consumer that stores an offset past the damage continues
    there.
    """
    victim = prepared.victim(0)
    damaged = segment_files.messages(victim.sealed)[10].offset
    flip(victim.sealed, segment_files.messages(victim.sealed)[10].position + HEADER_BYTES)
    with prepared.start() as connection:
        connection.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset("s", "t", 0, damaged - 4))
        request = victim.poll_request(Strategy.NEXT, 0, 2, auto_commit=True)
        statuses = [connection.status(Code.POLL_MESSAGES, request) for _ in range(4)]
        assert statuses[-1] == Status.INVALID_MESSAGE_CHECKSUM
        assert connection.stored_offset("s", "t", 0) == damaged - 1, "what was served, and no more"
        connection.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset("s", "t", 0, damaged))
        rest = connection.poll("s", "t", 0, Strategy.NEXT, 0, 1000)
        assert rest.payloads == victim.expected()[damaged + 1 :]


def test_flipped_bytes_in_the_open_segment(prepared: Prepared) -> None:
    """LOG-11, LOG-12: damage of what was on the device is no torn tail."""
    cases = [(nth, place) for nth in (1, -1) for place in PLACES]
    victims = dict(zip(cases, prepared.victims(len(cases)), strict=True))
    damaged_offsets = {}
    for (nth, place), victim in victims.items():
        message = segment_files.messages(victim.open_segment)[nth]
        flip(victim.open_segment, message.position + PLACES[place] % message.size)
        damaged_offsets[nth, place] = message.offset
    findings = Findings()
    with prepared.start() as connection:
        for case, victim in victims.items():
            damaged = damaged_offsets[case]
            with findings.of(case):
                assert_damaged_at(connection, victim, damaged)
        prepared.assert_the_rest_works(connection)
    findings.assert_none()


def test_a_rotten_byte_in_the_open_segment_without_its_index_costs_one_message(prepared: Prepared) -> None:
    """LOG-11, LOG-12: any damaged byte followed by valid messages is reported as damage and is no torn tail."""
    victims = dict(zip(PLACES, prepared.victims(len(PLACES)), strict=True))
    damaged_offsets, sizes = {}, {}
    for place, victim in victims.items():
        message = segment_files.messages(victim.open_segment)[3]
        flip(victim.open_segment, message.position + PLACES[place] % message.size)
        victim.open_segment.with_suffix(".index").unlink(missing_ok=True)
        damaged_offsets[place] = message.offset
        sizes[place] = victim.open_segment.stat().st_size
    logs = {place: victim.open_segment for place, victim in victims.items()}
    findings = Findings()
    with prepared.start() as connection:
        for place, victim in victims.items():
            with findings.of(place):
                assert logs[place].stat().st_size == sizes[place], "something was cut"
                words = (f"0/0/{victim.number}:", f"offset {damaged_offsets[place]}", logs[place].name)
                eventually(f"a line with {words}", lambda words=words: prepared.log_lines(*words))
                assert_damaged_at(connection, victim, damaged_offsets[place])
        prepared.assert_the_rest_works(connection)
    with prepared.restart(kill=True) as connection:
        for place, victim in victims.items():
            with findings.of(f"{place}, after another restart"):
                assert_damaged_at(connection, victim, damaged_offsets[place])
    findings.assert_none()


@killed_alone
def test_a_segment_is_gone(prepared: Prepared) -> None:
    """LOG-14: messages of a missing segment are refused, never skipped silently; the rest of the server works."""
    victim = prepared.victim(0)
    lost = [message.offset for message in segment_files.messages(victim.sealed)]
    victim.sealed.unlink()
    with prepared.start() as connection:
        for offset in lost:
            status = connection.status(Code.POLL_MESSAGES, victim.poll_request(Strategy.OFFSET, offset, 1))
            assert status != Status.OK, offset
        prepared.assert_the_rest_works(connection)


# ---- manifest, stored offsets, foreign files

MANIFEST_DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": lambda manifest: manifest.unlink(),
    "empty": lambda manifest: cut(manifest, 0),
    "cut": lambda manifest: cut(manifest, manifest.stat().st_size // 2),
    "flipped": lambda manifest: flip(manifest, manifest.stat().st_size // 2),
    "noise": lambda manifest: manifest.write_bytes(random.Random(2).randbytes(5000)),
}


MANIFESTS = ("partition.json", "partition.copy.json")


def contents(victim: Victim) -> dict[str, bytes]:
    """Return all files of the partition's directory except the manifest and its copy."""
    return {file.name: file.read_bytes() for file in victim.directory.iterdir() if file.name not in MANIFESTS}


@killed_alone
def test_a_damaged_manifest_is_rebuilt(prepared: Prepared) -> None:
    """LOG-14: either of the manifest and its copy is enough."""
    cases = [(file, how) for file in MANIFESTS for how in MANIFEST_DAMAGE]
    victims = dict(zip(cases, prepared.victims(len(cases)), strict=True))
    for (file, how), victim in victims.items():
        MANIFEST_DAMAGE[how](victim.directory / file)
    findings = Findings()
    with prepared.start() as connection:
        for case, victim in victims.items():
            with findings.of(case):
                victim.assert_complete(connection)
        prepared.assert_the_rest_works(connection)
    findings.assert_none()


@killed_alone
def test_a_manifest_damaged_with_its_copy_closes_its_partition(prepared: Prepared) -> None:
    """LOG-14: the partition is closed, with its reason; nothing is deleted; a restored manifest reopens it."""
    victims = dict(zip(MANIFEST_DAMAGE, prepared.victims(len(MANIFEST_DAMAGE)), strict=True))
    manifests = {name: (victim.directory / "partition.json").read_bytes() for name, victim in victims.items()}
    before = {name: contents(victim) for name, victim in victims.items()}
    for name, damage in MANIFEST_DAMAGE.items():
        for file in MANIFESTS:
            damage(victims[name].directory / file)
    findings = Findings()
    with prepared.start() as connection:
        for name, victim in victims.items():
            with findings.of(name):
                status = connection.status(Code.POLL_MESSAGES, victim.poll_request(Strategy.FIRST))
                assert status == Status.CANNOT_READ_PARTITIONS
                send = frames.send("s", "t", frames.to_partition(victim.number), [frames.message(b"m")])
                assert connection.status(Code.SEND_MESSAGES, send) == Status.CANNOT_READ_PARTITIONS
                eventually(
                    "the reason is shown",
                    lambda victim=victim: prepared.log_lines(f"0/0/{victim.number}", "partition.json"),
                )
        prepared.assert_the_rest_works(connection)
    prepared.server.stop()
    for name, victim in victims.items():
        with findings.of(f"{name}: files"):
            assert contents(victim) == before[name], "files were changed"
        (victim.directory / "partition.json").write_bytes(manifests[name])
    with prepared.start() as connection:
        for name, victim in victims.items():
            with findings.of(f"{name}: put right"):
                victim.assert_complete(connection)
    findings.assert_none()


OWNER_BYTES = 24
"""Size of the record of who owns an offset, before the first one."""


@killed_alone
def test_damaged_stored_offsets(prepared: Prepared) -> None:
    """LOG-10, LOG-14: complete records are used; without any, a consumer starts from the beginning; messages are
    unaffected.
    """
    damage: dict[str, tuple[Callable[[Path], object], int | None]] = {
        "missing": (lambda file: file.unlink(), None),
        "empty": (lambda file: cut(file, 0), None),
        "noise": (lambda file: file.write_bytes(random.Random(3).randbytes(1000)), None),
        "flipped": (lambda file: flip(file, OWNER_BYTES + 3), None),
        # The offset has no owner then.
        "flipped in its owner": (lambda file: flip(file, 3), CONSUMER_OFFSET),
        "torn behind a record": (lambda file: append(file, file.read_bytes()[:11]), CONSUMER_OFFSET),
    }
    victims = dict(zip(damage, prepared.victims(len(damage)), strict=True))
    for name, victim in victims.items():
        damage[name][0](victim.directory / "offsets")
    findings = Findings()
    with prepared.start() as connection:
        for name, victim in victims.items():
            with findings.of(name):
                kept = damage[name][1]
                assert connection.stored_offset("s", "t", victim.number) == kept
                following = connection.poll("s", "t", victim.number, Strategy.NEXT, count=1).offsets
                assert following == [0 if kept is None else kept + 1]
                connection.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset("s", "t", victim.number, 7))
                victim.assert_complete(connection)
        prepared.assert_the_rest_works(connection)
    with prepared.restart(kill=True) as connection:
        for name, victim in victims.items():
            with findings.of(f"{name}, after another restart"):
                assert connection.stored_offset("s", "t", victim.number) == 7
    findings.assert_none()


@killed_alone
def test_stored_offsets_beyond_the_end_are_lowered(prepared: Prepared) -> None:
    """LOG-15: a stored offset never exceeds the last message, also when the log lost its tail."""
    victim = prepared.victim(0)
    with prepared.start() as connection:
        connection.send("s", "t", 0, *[payload(0, MESSAGES_COUNT + number) for number in range(4)])
        connection.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset("s", "t", 0, MESSAGES_COUNT + 3))
    prepared.server.kill()
    last_kept = segment_files.messages(victim.open_segment)[-4]
    cut(victim.open_segment, last_kept.end)
    with prepared.start() as connection:
        assert connection.stored_offset("s", "t", 0) == last_kept.offset
        connection.send("s", "t", 0, b"new")
        assert connection.poll("s", "t", 0, Strategy.NEXT).payloads == [b"new"]


@killed_alone
def test_files_that_are_not_ours(prepared: Prepared) -> None:
    """LOG-14: a foreign file in the directory is left alone and changes nothing."""
    names = ("notes.txt", "7.log", "00000000000000000007.log.bak")
    for number, name in enumerate(names):
        (prepared.victim(number).directory / name).write_bytes(b"stranger")
    with prepared.start() as connection:
        for number in range(len(names)):
            prepared.victim(number).assert_complete(connection)
    for number, name in enumerate(names):
        assert (prepared.victim(number).directory / name).read_bytes() == b"stranger"
    victim = prepared.victim(0)
    assert payload(0, 0) in segment_files.logs(victim.directory)[0].read_bytes()
