"""The state machine as a program for the replica simulator.

    headrace-sim run --state-machine "python services/metadata/tests/simulated"

Requests are read from standard input and answers written to standard output; `core/crates/sim/src/machine/pipe.rs`
documents the format. The last argument is the number of the replica, used as hash seed: an order that depends on hashes
differs between replicas, and is reproducible with the same simulation seed.
"""

import argparse
import hashlib
import os
import struct
import sys
import traceback

from bugs import BUGS
from commands import draw
from rules import Rules

from headrace_metadata.applied_state import AppliedState
from headrace_metadata.state_machine import StateMachine
from headrace_proto.metadata.v1 import Command, StateSnapshot


class Simulated:
    """One machine with its checks."""

    def __init__(self, kind: type[StateMachine]) -> None:
        self._kind = kind
        self._begin(kind())

    def answer(self, kind: int, question: bytes) -> bytes:
        match kind:
            case 0:
                return self._draw(question)
            case 1:
                self._begin(self._kind())
                return self._digest()
            case 2:
                return self._apply(question)
            case 3:
                return self._snapshot()
            case 4:
                self._begin(self._kind.restore(StateSnapshot.FromString(question)))
                return self._digest()
        raise ValueError(f"there is no question {kind}")

    def _begin(self, machine: StateMachine) -> None:
        self._machine = machine
        self._state = AppliedState(machine)
        self._updates = []
        self._rules = Rules(self._state.subscribe(self._updates.append, lambda _: None))

    def _draw(self, question: bytes) -> bytes:
        run, word = struct.unpack("<QQ", question)
        return draw(run, word, self._machine).SerializeToString(deterministic=True)

    def _apply(self, question: bytes) -> bytes:
        _, timestamp_nanos, count = struct.unpack_from("<QQI", question)
        reported, replies, place = hashlib.blake2b(digest_size=16), [], 20
        for _ in range(count):
            (length,) = struct.unpack_from("<I", question, place)
            command = Command.FromString(question[place + 4 : place + 4 + length])
            place += 4 + length
            reply = self._state.apply_committed(timestamp_nanos, command)
            for update in self._updates:
                reported.update(update.SerializeToString(deterministic=True))
            self._rules.check(self._machine, command, reply, self._updates)
            self._updates.clear()
            encoded = reply.SerializeToString(deterministic=True)
            replies.append(struct.pack("<II", reply.status, len(encoded)) + encoded)
        return self._digest() + reported.digest() + b"".join(replies)

    def _snapshot(self) -> bytes:
        self._rules.check_view(self._machine.catalog())
        return encode(self._state.fork_machine())

    def _digest(self) -> bytes:
        return hashlib.blake2b(encode(self._machine), digest_size=16).digest()


def encode(machine: StateMachine) -> bytes:
    return machine.snapshot().SerializeToString(deterministic=True)


def serve(machine: Simulated) -> None:
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    while len(frame := questions.read(4)) == 4:
        question = questions.read(*struct.unpack("<I", frame))
        try:
            answer = b"\0" + machine.answer(question[0], question[1:])
        except Exception:  # noqa: BLE001  (whatever it is, the simulator reports it)
            answer = b"\1" + traceback.format_exc(limit=-4).encode()
        answers.write(struct.pack("<I", len(answer)) + answer)
        answers.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--planted", choices=BUGS, help="a machine that has a bug on purpose")
    parser.add_argument("replica", type=int)
    arguments = parser.parse_args()
    seed = str(arguments.replica + 1)
    if os.environ.get("PYTHONHASHSEED") != seed:
        os.execve(sys.executable, sys.orig_argv, {**os.environ, "PYTHONHASHSEED": seed})
    serve(Simulated(BUGS.get(arguments.planted, StateMachine)))


main()
