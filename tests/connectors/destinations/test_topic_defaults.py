"""CON-80, CON-13: topics are created with the defaults of their entries, at the start and at their first record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import headrace
from tests.connectors.process import Connectors, until


def partitions(client: headrace.Client, stream: str, topic: str) -> int | None:
    """Number of partitions of a topic; None: there is none."""
    try:
        return client.topic(stream, topic).partitions_count
    except headrace.NotFound:
        return None


def test_allowed_topics_are_created_with_their_own_defaults(
    client: headrace.Client, connectors: Connectors, stream: str
) -> None:
    """Named ones before there are records, others with their first one."""
    connectors.run(
        f'[sources.made]\nplugin = "random"\n[sources.made.settings]\ninterval = "5 ms"\n'
        f'[sources.made.topic_defaults]\npartitions_count = 2\n[sources.made.routing]\ntopic_column = "ware"\n'
        f'default_stream = "{stream}"\ndefault_topic = "none"\n[sources.made.admission]\nmode = "allowlist"\n'
        f'allow = [{{ stream = "{stream}", topic = "*", topic_defaults = {{ partitions_count = 3 }} }},\n'
        f'{{ stream = "{stream}", topic = "unused", topic_defaults = {{ partitions_count = 5 }} }}]\n'
    )

    def written() -> list[dict[str, Any]]:
        return [one for one in connectors.get("/connectors/made/destinations") if one["messages_count"]]

    destinations = until(written)
    assert partitions(client, stream, "unused") == 5
    assert {one["partitions_count"] for one in destinations} == {3}
    assert partitions(client, stream, destinations[0]["topic"]) == 3


def test_tables_have_topic_defaults_and_partition_ids_are_bounded_by_them(
    client: headrace.Client, connectors: Connectors, stream: str, tmp_path: Path
) -> None:
    """CON-80: an id that is in range in one topic is refused in the other."""
    large, small = tmp_path / "large.jsonl", tmp_path / "small.jsonl"
    for file in (large, small):
        file.write_text('{"p": 0}\n{"p": 3}\n', encoding="utf-8")
    connectors.run(
        '[sources.a]\nplugin = "files"\n[sources.a.settings]\nformat = "json_lines"\n'
        f'paths = ["{tmp_path}/*.jsonl"]\n[sources.a.topic_defaults]\npartitions_count = 2\n'
        '[sources.a.admission]\non_admission_failure = "drop"\n'
        '[sources.a.routing]\npartition_key_column = "p"\npartition_key_encoding = "partition_id"\n'
        f'default_stream = "{stream}"\ndefault_topic = "other"\n'
        f'[sources.a.routing.by_table."{large}"]\nstream = "{stream}"\ntopic = "large"\n'
        "topic_defaults = { partitions_count = 4 }\n"
        f'[sources.a.routing.by_table."{small}"]\nstream = "{stream}"\ntopic = "small"\n'
    )
    labels = {"connector_key": "a", "reason": "partition_id_out_of_range"}
    until(lambda: connectors.metric("headrace_connector_destinations_rejected_total", **labels) == 1)
    until(lambda: partitions(client, stream, "large") == 4)
    assert partitions(client, stream, "small") == 2
    until(lambda: client.topic(stream, "large").messages_count == 2)
    until(lambda: client.topic(stream, "small").messages_count == 1)
    # Messages are counted before they can be read.
    found = until(lambda: list(client.read(stream, "large", partition=3, count=10)))
    assert [json.loads(message.payload)["p"] for message in found] == [3]
