"""Reuse of response buffers."""

from headrace_partition_node.grpc.memory import Spares

MEBIBYTE = 1024 * 1024


def test_what_was_used_last_is_used_again():
    spares = Spares()
    assert len(spares.take()) == 0
    first, second = bytearray(2 * MEBIBYTE), bytearray(MEBIBYTE)
    for memory in (first, second):
        spares.give(memoryview(memory)[:1000])
    assert spares.take() is second
    assert spares.take() is first
    assert len(spares.take()) == 0


def test_what_is_small_or_too_large_is_not_kept():
    spares = Spares()
    spares.give(b"an answer that came with others")
    spares.give(memoryview(b"nor that of somebody else"))
    spares.give(memoryview(bytearray(64 * MEBIBYTE)))
    assert len(spares.take()) == 0


def test_no_more_is_kept_than_a_few():
    spares = Spares()
    for _ in range(100):
        spares.give(memoryview(bytearray(MEBIBYTE)))
    kept = 0
    while len(spares.take()):
        kept += 1
    assert 1 <= kept <= 8
