"""The core and Python compute the same placement."""

import json
from pathlib import Path

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace_core

VECTORS = json.loads((Path(__file__).parent / "owner_shard.json").read_text())


def owner(stream: int, topic: int, partition: int, shards: int) -> int:
    packed = stream << 32 | topic << 20 | partition
    return (mmh3.hash(packed.to_bytes(8, "little"), 0, signed=False) >> 16) % shards


@pytest.mark.parametrize("vector", VECTORS, ids=str)
def test_shared_vectors(vector: list[int]) -> None:
    """SHARD-4: owner of a namespace is `(murmur3_32(u64) >> 16) % n`, pinned by shared vectors."""
    *arguments, expected = vector
    assert owner(*arguments) == expected
    assert headrace_core.owner_shard(*arguments) == expected


@given(st.integers(0, 4095), st.integers(0, 4095), st.integers(0, 2**20 - 1), st.integers(1, 2**16 - 1))
def test_any_namespace(stream: int, topic: int, partition: int, shards: int) -> None:
    """SHARD-4."""
    assert headrace_core.owner_shard(stream, topic, partition, shards) == owner(stream, topic, partition, shards)


@pytest.mark.parametrize("arguments", [(4096, 0, 0, 1), (0, 4096, 0, 1), (0, 0, 2**20, 1), (0, 0, 0, 0)])
def test_what_does_not_fit_is_refused(arguments: tuple[int, int, int, int]) -> None:
    """SHARD-3: limits are enforced, never wrapped."""
    with pytest.raises(ValueError, match=r"\S"):
        headrace_core.owner_shard(*arguments)
