"""The simulator's program: drawing commands, answering, detecting violations (CTL-2, CTL-7)."""

import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from metadata_commands import create_stream, create_topic
from transaction_commands import applied, at, commit, stage

from headrace_proto.metadata.v1 import Command, StateSnapshot

PROGRAM = Path(__file__).parent / "simulated"
DRAW, OPEN, APPLY, SNAPSHOT, RESTORE = range(5)
EVERY_FAMILY = 2**64 - 1


class Program:
    def __init__(self, number, *options):
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *options, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, kind, question=b""):
        """Return whether the program reports a violation, and its message."""
        self.process.stdin.write(struct.pack("<IB", len(question) + 1, kind) + question)
        self.process.stdin.flush()
        (length,) = struct.unpack("<I", self.process.stdout.read(4))
        answer = self.process.stdout.read(length)
        return bool(answer[0]), answer[1:]

    def draw(self, word):
        return self.ask(DRAW, struct.pack("<QQ", EVERY_FAMILY, word))[1]

    def apply(self, op, *commands):
        encoded = b"".join(struct.pack("<I", len(command)) + command for command in commands)
        return self.ask(APPLY, struct.pack("<QQI", op, op * 50_000_000, len(commands)) + encoded)

    def close(self):
        self.process.stdin.close()
        self.process.wait(120)
        self.process.stdout.close()


@pytest.fixture
def program():
    started = []

    def start(number, *options):
        started.append(Program(number, *options))
        return started[-1]

    yield start
    for one in started:
        one.close()


def first_difference(one, other, ops):
    """Return the first op with different answers to the same commands, and the number of effective commands of each
    kind.
    """
    assert one.ask(OPEN) == other.ask(OPEN)
    done = Counter()
    for op in range(1, ops + 1):
        command = one.draw(op)
        answer = one.apply(op, command)
        if answer != other.apply(op, command):
            return op, done
        failed, reported = answer
        assert not failed, reported.decode()
        (status,) = struct.unpack_from("<I", reported, 32)
        done[Command.FromString(command).WhichOneof("operation")] += status == 0
    assert one.ask(SNAPSHOT) == other.ask(SNAPSHOT)
    return None, done


def test_machines_that_hash_strings_differently_agree_and_every_command_is_drawn(program):
    difference, done = first_difference(program(0), program(1), 3_000)
    assert difference is None
    operations = {field.name for field in Command.DESCRIPTOR.oneofs_by_name["operation"].fields}
    assert {name for name, count in done.items() if count} == operations


@pytest.mark.parametrize("bug", ["set-order", "wall-clock"])
def test_what_depends_on_hashes_or_clocks_is_seen(program, bug):
    difference, _ = first_difference(program(0, "--planted", bug), program(1, "--planted", bug), 3_000)
    assert difference is not None


@pytest.mark.parametrize(
    ("bug", "rule"),
    [
        ("hasty", b"it moves when its owner has said so, or too late"),
        ("careless", b"what is committed stays until a node has appended it"),
        ("generous", b"what a partition has not appended is still to come"),
    ],
)
def test_what_breaks_a_rule_is_seen(program, bug, rule):
    one = program(0, "--planted", bug)
    answers = (one.apply(op, one.draw(op)) for op in range(1, 3_000))
    objection = next(reported for failed, reported in answers if failed)
    assert rule in objection


def test_of_several_reports_about_one_partition_the_highest_counts(program):
    """Regression: the rule took the last one, and found fault with a machine that was right."""
    one = program(0)
    # Topic, partition, and the op that created the partition.
    partition = (0, 0, 2)
    reports = applied(partition, 4)
    reports.MergeFrom(applied(partition, 3))
    stages = [at(partition, stage(10_000_000, which)) for which in range(2)]
    commands = [create_stream("s"), create_topic(0, "t"), commit(1, stages[0]), commit(2, stages[1]), reports]
    for op, command in enumerate(commands, 1):
        failed, reported = one.apply(op, command.SerializeToString())
        assert not failed, reported.decode()
        (status,) = struct.unpack_from("<I", reported, 32)
        assert status == 0, command
    snapshot = StateSnapshot.FromString(one.ask(SNAPSHOT)[1])
    assert not snapshot.catalog.publications


def test_a_restored_machine_is_the_same_one(program):
    one, other = program(0), program(1)
    for op in range(1, 400):
        one.apply(op, one.draw(op))
    failed, snapshot = one.ask(SNAPSHOT)
    assert not failed
    assert other.ask(RESTORE, snapshot)[0] is False
    command = one.draw(1)
    assert one.apply(400, command) == other.apply(400, command)


def test_an_objection_says_why_and_the_program_goes_on(program):
    one = program(0)
    failed, why = one.apply(1, Command().SerializeToString())
    assert failed
    assert b"UnknownCommandError" in why
    assert one.ask(OPEN)[0] is False
