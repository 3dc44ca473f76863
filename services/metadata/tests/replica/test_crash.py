"""Killed processes, and processes that differ only in their hash seed."""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from metadata_commands import (
    create_stream,
    create_token,
    create_topic,
    create_user,
    delete_stream,
    permissions_for,
)
from metadata_native import alone

from headrace_metadata.replica import Replica
from headrace_metadata.state_machine import StateMachine
from headrace_proto.metadata.v1 import Command, DeleteExpiredAccessTokens

# Program that proposes as fast as it can, and prints the streams whose creation was acknowledged.
PROPOSER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from metadata_native import alone
from headrace_metadata.replica import Replica
from headrace_proto.metadata.v1 import Command, CreateStream, DeleteStream

async def work(replica, worker):
    for round in range(1000000):
        name = f"w{worker} r{round}"
        reply = await replica.propose(Command(create_stream=CreateStream(name=name)))
        assert reply.status == 0, reply
        print("+", name, reply.stream.incarnation, flush=True)
        if round % 3:
            reply = await replica.propose(Command(delete_stream=DeleteStream(stream_id=reply.stream.id)))
            assert reply.status == 0, reply
            print("-", name, 0, flush=True)

async def main():
    replica = await Replica.open(alone(Path(sys.argv[1]), snapshot_commands=50))
    await replica.wait_recovered()
    existing = {stream.name for stream in replica.state.fork_machine().catalog().streams}
    print("=", len(existing), 0, flush=True)
    await asyncio.gather(*(work(replica, f"{sys.argv[2]}.{worker}") for worker in range(8)))

asyncio.run(main())
"""

HASHER = """
import hashlib, sys
from headrace_metadata.state_machine import StateMachine
from headrace_proto.metadata.v1 import Command
machine = StateMachine()
digest = hashlib.sha256()
for line in sys.stdin:
    applied = machine.apply(machine.op + 1, machine.timestamp_micros + 1, Command.FromString(bytes.fromhex(line)))
    digest.update(applied.reply.SerializeToString() + (applied.update or applied.reply).SerializeToString())
digest.update(machine.snapshot().SerializeToString(deterministic=True))
print(digest.hexdigest())
"""


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path):
    """LOG-13: several runs, each killed during proposals of eight tasks."""
    script = tmp_path / "proposer.py"
    script.write_text(PROPOSER)
    directory = tmp_path / "state"
    existing, deleted, incarnations = set(), set(), set()
    for life in range(4):
        process = subprocess.Popen(
            [sys.executable, str(script), str(directory), str(life), str(Path(__file__).parents[1])],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline().startswith("=")
        time.sleep(0.3 + 0.17 * life)
        # A loaded machine may have made little progress before the timeout.
        output = "".join(process.stdout.readline() for _ in range(120))
        os.kill(process.pid, signal.SIGKILL)
        output += process.communicate()[0]
        assert process.returncode == -signal.SIGKILL
        # The last line may be cut off.
        for line in output.split("\n")[:-1]:
            sign, name, incarnation = line[0], line[2 : line.rindex(" ")], int(line[line.rindex(" ") :])
            if sign == "+":
                existing.add(name)
                assert incarnation not in incarnations, "never given twice, over all lives"
                incarnations.add(incarnation)
            else:
                existing.discard(name)
                deleted.add(name)
        names = asyncio.run(recovered_names(directory))
        # Commands in flight at the kill may or may not have been applied: at most one for each task.
        assert len(existing - names) <= 8
        assert not deleted & names
        assert len(names - existing) <= 8
        missing = existing - names
        existing = names
        deleted |= missing
    assert len(incarnations) > 200


async def recovered_names(directory):
    async with await Replica.open(alone(directory)) as replica:
        await replica.wait_recovered()
        return {stream.name for stream in replica.state.catalog().streams}


def test_the_outcome_does_not_depend_on_the_hash_seed():
    commands = []
    machine = StateMachine()
    for number in range(60):
        command = command_number(number)
        commands.append(command.SerializeToString().hex())
        machine.apply(machine.op + 1, machine.timestamp_micros + 1, command)
    digests = {
        subprocess.run(
            [sys.executable, "-c", HASHER],
            input="\n".join(commands),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 2 * hashlib.sha256().digest_size


def command_number(number):

    kinds = [
        lambda: create_stream(f"stream {number}"),
        lambda: create_user(f"user {number}", permissions=permissions_for({0: [1, 0], number % 7: [number % 3]})),
        lambda: create_topic(number % 3, f"topic {number}", 3),
        lambda: create_token(number % 5, f"token {number}", expires_at_micros=number + 5),
        lambda: delete_stream(number % 4),
        lambda: Command(delete_expired_access_tokens=DeleteExpiredAccessTokens()),
    ]
    return kinds[number % len(kinds)]()
