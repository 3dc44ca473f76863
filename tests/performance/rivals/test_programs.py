"""Other logs that cannot be had are left out of the measurement with a reason."""

from pathlib import Path

import pytest

from tests.performance.rivals.kafka_broker import KafkaUnavailable, broker
from tests.performance.rivals.programs import NatsUnavailable, kafka_class_path, kafka_version, nats_server


def test_without_their_tools_there_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tests.performance.rivals.programs.CACHE", tmp_path)
    with pytest.raises(KafkaUnavailable, match="there is no java"):
        kafka_class_path()
    with pytest.raises(NatsUnavailable, match="there is no go"):
        nats_server()


def test_a_failing_loader_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("java", "mvn", "go"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho no network >&2\nexit 1\n", encoding="utf-8")
        program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr("tests.performance.rivals.programs.CACHE", tmp_path / "cache")
    with pytest.raises(KafkaUnavailable, match="Maven cannot load the broker: no network"):
        kafka_class_path()
    with pytest.raises(NatsUnavailable, match="Go cannot build the server: no network"):
        nats_server()
    with (
        pytest.raises(KafkaUnavailable, match="the broker cannot format its directory: no network"),
        broker(tmp_path / "broker", "nothing.jar"),
    ):
        pass


def test_the_broker_has_a_version() -> None:
    assert [part.isdigit() for part in kafka_version().split(".")] == [True, True, True]
