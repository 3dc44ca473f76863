"""Answers of a session are decoded however their bytes are split."""

import asyncio
import random
import socket
import struct

import pytest

from headrace_node.connections.answers import Answers


def frame(status, payload):
    return struct.pack("<II", status, len(payload)) + payload


@pytest.fixture
async def connected():
    """Connect a plain socket to the protocol under test."""
    there, here = socket.socketpair()
    for end in (there, here):
        end.settimeout(0.0)
    transport, answers = await asyncio.get_running_loop().create_connection(Answers, sock=here)
    with there:
        yield there, transport, answers
        transport.close()


async def send(there, data):
    await asyncio.get_running_loop().sock_sendall(there, data)


async def test_answers_come_as_they_were_sent_however_they_are_cut(connected):
    there, _, answers = connected
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    sizes = [0, 1, 8, 65_527, 65_528, 65_529, 65_536, 65_537, 1_000_000]
    sent = [(number, chance.randbytes(chance.choice(sizes))) for number in range(60)]

    async def write():
        data = b"".join(frame(*answer) for answer in sent)
        while data:
            cut = chance.choice([1, 7, 8, 9, 1000, 65_536, 500_000])
            await send(there, data[:cut])
            data = data[cut:]
            if chance.random() < 0.2:
                await asyncio.sleep(0)

    writing = asyncio.create_task(write())
    received = [(answer.status, bytes(answer.payload)) for answer in [await answers.take() for _ in sent]]
    await writing
    assert received == sent, f"seed {seed}"
    assert answers.is_quiet


async def test_a_large_answer_goes_where_it_is_wanted(connected):
    there, _, answers = connected
    memory = bytearray(300_000)
    answers.lent = memory
    await asyncio.gather(send(there, frame(0, b"small") + frame(0, b"x" * 200_000)), asyncio.sleep(0))
    assert (await answers.take()).payload == b"small"
    large = (await answers.take()).payload
    assert isinstance(large, memoryview)
    assert large.obj is memory
    assert large == b"x" * 200_000
    # The next answer must not overwrite it.
    await send(there, frame(0, b"y" * 200_000))
    assert (await answers.take()).payload == b"y" * 200_000
    assert large == b"x" * 200_000


async def test_memory_that_is_too_small_is_left_alone(connected):
    there, _, answers = connected
    answers.lent = bytearray(1000)
    await send(there, frame(0, b"x" * 100_000))
    large = (await answers.take()).payload
    assert large == b"x" * 100_000
    assert large.obj is not answers.lent
    assert len(large.obj) >= 100_000


async def test_who_takes_nothing_is_not_sent_more_and_more(connected):
    there, transport, answers = connected
    sent = 0

    async def write():
        nonlocal sent
        for _ in range(100):
            await send(there, frame(0, b"x" * 200_000))
            sent += 1

    writing = asyncio.create_task(write())
    while transport.is_reading():
        await asyncio.sleep(0)
    await asyncio.sleep(0.1)
    assert sent < 20
    for _ in range(100):
        assert len((await answers.take()).payload) == 200_000
    await writing
    assert answers.is_quiet


@pytest.mark.parametrize("rest", [b"", b"\0\0\0", frame(0, b"x" * 100)[:-1], frame(0, b"x" * 100_000)[:-1]])
async def test_what_was_there_before_the_end_is_taken(connected, rest):
    there, _, answers = connected
    await send(there, frame(3, b"last") + rest)
    there.close()
    answer = await answers.take()
    assert (answer.status, answer.payload) == (3, b"last")
    with pytest.raises(ConnectionError):
        await answers.take()
    assert not answers.is_quiet
    with pytest.raises(ConnectionError):
        await answers.written()


async def test_a_waiting_caller_is_notified_of_the_end(connected):
    _, transport, answers = connected
    taking = asyncio.create_task(answers.take())
    await asyncio.sleep(0)
    transport.close()
    with pytest.raises(ConnectionError):
        await taking


async def test_writing_waits_for_room(connected):
    there, transport, answers = connected
    data = random.randbytes(3_000_000)
    transport.write(data)
    written = asyncio.create_task(answers.written())
    await asyncio.sleep(0.05)
    assert not written.done()
    received = bytearray()
    while len(received) < len(data):
        received += await asyncio.get_running_loop().sock_recv(there, 1 << 20)
    await written
    assert received == data


async def test_a_large_answer_is_received_only_if_there_is_memory_for_it(connected):
    there, transport, answers = connected
    sizes = []
    answers.admit = sizes.append
    await asyncio.gather(send(there, frame(0, b"small") + frame(0, b"x" * 200_000)), asyncio.sleep(0))
    assert bytes((await answers.take()).payload) == b"small"
    assert len((await answers.take()).payload) == 200_000
    assert sizes == [200_000]

    def refuse(_size):
        raise MemoryError("no more")

    answers.admit = refuse
    # The head of an answer of 3 GiB, of which nothing else arrives.
    await send(there, struct.pack("<II", 0, 3 * 2**30))
    with pytest.raises(MemoryError, match="no more"):
        await answers.take()
    assert transport.is_closing()
