"""SPK-1: options are typed, and every invalid one is refused by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.parsing import option_names
from pyspark_headrace.options.reading import ReadOptions, batch_options, read_options, stream_options

ROOT = Path(__file__).resolve().parents[2]
LEAST = {"servers": "a:8094", "stream": "shop", "subscribe": "orders"}

WRONG = {
    "servers": ["", "a", "a:0", "a:99999", "a:1,a:1", "http://a:1"],
    "tokenFile": [" "],
    "tokenEnv": [""],
    "username": [""],
    "passwordFile": [""],
    "passwordEnv": [""],
    "tls.enabled": ["yes"],
    "tls.nodes": ["1"],
    "tls.ca": [""],
    "tls.certificate": [""],
    "tls.key": [""],
    "tls.serverName": [""],
    "retry.max": ["-1", "many", "1001"],
    "retry.intervalMs": ["0", "1 week"],
    "ticketLifetime": ["10ms", "always", "99999999d"],
    "stream": ["", " "],
    "subscribe": ["", "a,,b", "a,a"],
    "subscribePattern": ["", "("],
    "assign": ["orders", "[]", "{}", '{"a": []}', '{"a": [0, 0]}', '{"a": ["0"]}', '{"a": [-1]}', '{"a": [true]}'],
    "startingOffsets": ["first", "{}", '{"a": {"0": -3}}', '{"a": {"x": 1}}', '{"a": {"0": "1"}}', '{"a": 1}', "{"],
    "startingTimestamp": ["yesterday", "2026-11-21T20:00:00", "-1", "1969-12-31T23:59:59.5Z", "1763755200000000000"],
    # Nanoseconds are no milliseconds.
    "startingOffsetsByTimestamp": [
        "latest",
        '{"a": {"0": -1}}',
        '{"a": {"0": 1}, "a": {"0": 2}}',
        '{"a": {"0": 1763755200000000000}}',
    ],
    "startingOffsetsByTimestampStrategy": ["earliest"],
    "endingOffsets": ["earliest", '{"a": {"0": -3}}', '{"a": {"0": -2}}'],
    "endingTimestamp": ["tomorrow", "1970-01-01T00:00:00+01:00"],
    "endingOffsetsByTimestamp": ["{}", '{"a": {"0": 10000000000000000}}'],
    "readerId": [""],
    "maxOffsetsPerTrigger": ["0", "1e6", "-5"],
    "maxBytesPerTrigger": ["0", "1x"],
    "minOffsetsPerTrigger": ["0"],
    "maxTriggerDelay": ["0", "-1s"],
    "minPartitions": ["0", "100001"],
    "maxRecordsPerPartition": ["0"],
    "maxBytesPerPartition": ["0", "big"],
    "failOnDataLoss": ["maybe"],
    "includeHeaders": ["2"],
    "columns": ["", "value,value"],
    "isolation": ["uncommitted", "none"],
    "verifyChecksums": [""],
    "batchRows": ["0", "1000001"],
    "batchBytes": ["0", "2g"],
    "fetchBytes": ["1", "65m"],
    "fetchTimeoutMs": ["0"],
    "prefetchChunks": ["0", "1001"],
    "metadataMaxAgeMs": ["-1"],
    "emit": ["rows"],
}
ONE_OF_THREE = ("subscribe", "subscribePattern", "assign")


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in WRONG.items() for text in texts])
def test_a_wrong_value_is_refused_by_name(name: str, text: str) -> None:
    given = {key: value for key, value in LEAST.items() if name not in ONE_OF_THREE or key != "subscribe"}
    parse = stream_options if name in {"readerId", "metadataMaxAgeMs"} or "Trigger" in name else batch_options
    with pytest.raises(OptionError, match=rf"\b{re.escape(name)}\b"):
        parse(given | {name: text})


def test_every_option_has_wrong_values_here_and_a_line_in_the_document() -> None:
    names = option_names(ReadOptions)
    assert set(names) == set(WRONG)
    document = (ROOT / "docs/spark.md").read_text(encoding="utf-8")
    rows = [line for line in document.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`([\w.]+)`", row.split("|")[1])}
    assert not set(names) - documented


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("startingOffset", "startingOffsets"),
        ("SUBSCRIBER", "subscribe"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
    ],
)
def test_an_unknown_option_names_the_nearest_one(name: str, near: str) -> None:
    with pytest.raises(OptionError, match=f"unknown option {name}: did you mean {near}"):
        read_options(LEAST | {name: "1"})
    with pytest.raises(OptionError, match=r"unknown option kafka\.bootstrap$"):
        read_options(LEAST | {"kafka.bootstrap": "1"})


@pytest.mark.parametrize("name", ["token", "password", "Secret"])
def test_secrets_are_no_options(name: str) -> None:
    with pytest.raises(OptionError, match="secrets are not options") as refused:
        read_options(LEAST | {name: "hunter2"})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("missing", ["servers", "stream"])
def test_what_is_required(missing: str) -> None:
    with pytest.raises(OptionError, match=f"option {missing} is required"):
        read_options({name: value for name, value in LEAST.items() if name != missing})


def test_names_are_taken_in_any_case_and_values_are_typed() -> None:
    options = stream_options(
        LEAST
        | {
            "MAXOFFSETSPERTRIGGER": "10",
            "maxbytespertrigger": "4m",
            "maxTriggerDelay": "2min",
            "startingoffsets": '{"orders": {"0": 23, "1": -1}}',
            "startingTimestamp": "2026-11-21T20:00:00.000001+01:00",
            "grpc.Max_Reconnect_Backoff_Ms": "17",
            "failonDataLoss": "FALSE",
        }
    )
    assert options.max_offsets_per_trigger == 10
    assert options.max_bytes_per_trigger == 4 << 20
    assert options.max_trigger_delay_ms == 120_000
    assert options.starting_offsets == {"orders": {0: 23, 1: -1}}
    assert options.starting_timestamp == 1_795_287_600_000_001
    assert options.channel_arguments == (("grpc.max_reconnect_backoff_ms", 17),)
    assert not options.fail_on_data_loss
    assert read_options(LEAST | {"startingTimestamp": "1500"}).starting_timestamp == 1_500_000
    assert read_options(LEAST | {"startingTimestamp": "1970-01-01T00:00:00Z"}).starting_timestamp == 0
    assert read_options(LEAST | {"startingOffsetsByTimestamp": '{"a": {"0": 2}}'}).starting_offsets_by_timestamp == {
        "a": {0: 2000}
    }


CONTRADICTIONS = [
    ({"subscribePattern": "x"}, "exactly one of subscribe"),
    ({"tokenFile": "a", "tokenEnv": "b"}, "only one"),
    ({"username": "a"}, "username needs"),
    ({"passwordEnv": "a"}, "need username"),
    ({"username": "a", "passwordEnv": "a", "passwordFile": "b"}, "username needs"),
    ({"tls.certificate": "a", "tls.enabled": "true"}, "belong together"),
    ({"tls.ca": "a"}, "need tls.enabled"),
    ({"includeHeaders": "true", "columns": "value"}, "no headers"),
    ({"emit": "ranges", "columns": "value"}, "columns of its own"),
]


@pytest.mark.parametrize(("more", "said"), CONTRADICTIONS)
def test_options_that_contradict_each_other(more: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        read_options(LEAST | more)


def test_batches_and_streams_have_options_of_their_own() -> None:
    with pytest.raises(OptionError, match="endingOffsets is for batches"):
        stream_options(LEAST | {"endingoffsets": "latest"})
    with pytest.raises(OptionError, match="maxTriggerDelay is for streams"):
        batch_options(LEAST | {"maxTriggerDelay": "1s"})
    for nothing in ("latest", '{"orders": {"0": -1}}'):
        with pytest.raises(OptionError, match="nothing to read"):
            batch_options(LEAST | {"startingOffsets": nothing})
    with pytest.raises(OptionError, match="minOffsetsPerTrigger is more than"):
        stream_options(LEAST | {"minOffsetsPerTrigger": "2", "maxOffsetsPerTrigger": "1"})
