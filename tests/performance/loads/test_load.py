"""Smoke test of the loads; their speed is not checked."""

from pathlib import Path

from headrace.cli.null_listener import null_listener
from tests.performance.loads.load import Load, Target, run_native
from tests.performance.machine_limits import (
    WRITE_BYTES,
    append_and_sync,
    append_to_page_cache,
    send_over_loopback,
)


def test_the_native_load_generator_understands_a_load() -> None:
    with null_listener(message_size_bytes=100, messages_per_poll=10) as (address, pid):
        for mode in ("produce", "consume"):
            load = Load(
                mode=mode,
                connections=2,
                message_size_bytes=100,
                messages_per_batch=10,
                amount={"bytes": 20_000},
                warm_up_seconds=0.0,
                default_sockets=True,
            )
            run = run_native(load, Target(address, pid))
            assert (run.requests, run.payload_bytes) == (20, 20_000)
            assert run.cpu_seconds >= 0.0
            assert run.p50_micros is not None


def test_loopback_carries_everything() -> None:
    run = send_over_loopback(3 * WRITE_BYTES)
    assert (run.requests, run.payload_bytes) == (3, 3 * WRITE_BYTES)
    assert run.cpu_seconds > 0.0


def test_yardsticks_clean_up(tmp_path: Path) -> None:
    assert append_to_page_cache(tmp_path, 3 * WRITE_BYTES).payload_bytes == 3 * WRITE_BYTES
    run = append_and_sync(tmp_path, threads_count=2, write_bytes=1000, seconds=0.01)
    assert run.payload_bytes == run.requests * 1000
    assert not list(tmp_path.iterdir())
