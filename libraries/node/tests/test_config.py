"""Validation of the shards' settings."""

import json
from pathlib import Path
from typing import get_args

import pytest

from headrace_node import Front, ShardsConfig, native_document
from headrace_node.config import Durability
from headrace_proto.catalog.v1 import Durability as RecordedDurability
from headrace_settings import Address, Duration, SettingsError, Size, load


def loaded(**environment: str) -> ShardsConfig:
    return load(ShardsConfig, environment=environment).config


@pytest.mark.parametrize(
    "text",
    ["all", "4", "5..8", "numa:auto", "numa:nodes=0,1", "numa:nodes=0,1;cores=4;no_ht=true", "numa:nodes=0;cores=0"],
)
def test_every_form_of_cpu_allocation(text: str) -> None:
    """SHARD-2: the documented values."""
    assert loaded(HEADRACE_SYSTEM_SHARDING_CPU_ALLOCATION=text).system.sharding.cpu_allocation == text


@pytest.mark.parametrize(
    "text", ["0", "-1", "some", "5..5", "8..5", "numa:", "numa:nodes=", "numa:nodes=0;no_ht=maybe"]
)
def test_a_bad_cpu_allocation_is_refused_with_a_message(text: str) -> None:
    """SHARD-2: invalid values are refused with a message."""
    with pytest.raises(SettingsError, match=r"system\.sharding\.cpu_allocation: .*(is not valid|empty)"):
        loaded(HEADRACE_SYSTEM_SHARDING_CPU_ALLOCATION=text)


def test_the_levels_of_durability_are_those_of_the_catalog() -> None:
    _unspecified, *levels = RecordedDurability.keys()
    assert [f"DURABILITY_{level.upper()}" for level in get_args(Durability)] == levels


def test_a_small_memory_pool_is_an_explicit_choice() -> None:
    """SHARD-8: minimum 512 MiB, smaller by an explicit setting."""
    with pytest.raises(SettingsError, match=r"system\.memory_pool: .*small = true permits it"):
        loaded(HEADRACE_SYSTEM_MEMORY_POOL_SIZE="64 MiB")
    config = loaded(HEADRACE_SYSTEM_MEMORY_POOL_SIZE="64 MiB", HEADRACE_SYSTEM_MEMORY_POOL_SMALL="true")
    assert config.system.memory_pool.size.bytes == 64 * 2**20


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SYSTEM_SEGMENT_SIZE", "1 MB"),
        ("SYSTEM_SEGMENT_SIZE", "2 GiB"),
        ("SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE", "0"),
        ("MESSAGE_SAVER_INTERVAL", "0"),
        ("MESSAGE_SAVER_SYNC_SIZE", "unlimited"),
        ("DURABILITY", "sync"),
        ("RUNTIME_DRIVER", "epoll"),
    ],
)
def test_values_out_of_bounds(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match="allowed:"):
        loaded(**{f"HEADRACE_{name}": value})


def test_the_native_document_has_plain_numbers(tmp_path: Path) -> None:
    front = Front(
        tcp_address=Address.parse("127.0.0.1:0"),
        websocket_address=None,
        websocket_frame_size_max=Size.parse("1 MiB"),
        websocket_message_size_max=Size.parse("2 MiB"),
        websocket_handshake_timeout=Duration.parse("3 s"),
        websocket_allowed_origins=("https://shop.example",),
        encrypted={"quic": Address.parse("127.0.0.1:8080")},
        connections_max=100,
        request_size_max=Size.parse("1 MiB"),
        response_size_max=Size.parse("2 MiB"),
        heartbeat_interval=Duration(0),
        member_timeout=Duration.parse("30 s"),
        wait_max=Duration.parse("1 m"),
        waited_partitions_max=1000,
        gateway_id=2**64 - 1,
    )
    document = json.loads(native_document(loaded(HEADRACE_MESSAGE_SAVER_ENFORCE_FSYNC="false"), front, tmp_path))
    assert document["data_path"] == str(tmp_path)
    assert (document["tcp_advertised_address"], document["quic_port"]) == (None, 8080)
    assert document["gateway_id"] == 2**64 - 1
    assert document["segment_size_bytes"] == 2**30
    assert document["flush_interval_micros"] == 30_000_000
    assert document["sync_interval_micros"] == document["sync_bytes"] == 0
    assert document["tcp_address"] == "127.0.0.1:0"
    assert document["websocket_address"] is None
    assert document["websocket_frame_bytes_max"] == 2**20
    assert document["websocket_message_bytes_max"] == 2**21
    assert document["websocket_handshake_timeout_micros"] == 3_000_000
    assert document["websocket_allowed_origins"] == ["https://shop.example"]
    assert document["send_payload_bytes_max"] == 2**20
    assert (document["wait_micros_max"], document["waited_partitions_max"]) == (60_000_000, 1000)
