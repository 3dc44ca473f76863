"""CON-80: entries of `by_table` and of `admission.allow` have topic defaults of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace_connectors.pipeline_file.models import SourceSettings
from headrace_connectors.pipeline_file.pipeline import parse_pipeline
from headrace_connectors.plugins.discovery import Plugins
from headrace_settings import Expiry, SettingsError

TOP = """\
[sources.a]
plugin = "random"
[sources.a.topic_defaults]
partitions_count = 2
message_expiry = "1 day"
[sources.a.routing]
default_stream = "s"
default_topic = "other"
"""
LISTED = TOP + '[sources.a.admission]\nmode = "allowlist"\n'


def settings(text: str, file: Path) -> SourceSettings:
    return parse_pipeline(file, text, Plugins(), {}).sources["a"].settings


def test_entries_are_merged_over_the_source(tmp_path: Path) -> None:
    """A table comes before a name that is allowed, a name before a pattern, and the source last."""
    text = LISTED + (
        "[[sources.a.admission.allow]]\n"
        'stream = "s"\ntopic = "*"\ntopic_defaults = { partitions_count = 3, message_expiry = "2 days" }\n'
        "[[sources.a.admission.allow]]\n"
        'stream = "s"\ntopic = "orders"\ntopic_defaults = { partitions_count = 4, max_size = "1 GiB" }\n'
        "[[sources.a.admission.allow]]\n"
        'stream = "u"\ntopic = "plain"\n'
        '[sources.a.routing.by_table."public.orders"]\n'
        'stream = "s"\ntopic = "orders"\ntopic_defaults = { partitions_count = 5, create = false }\n'
        '[sources.a.routing.by_table."public.items"]\nstream = "s"\ntopic = "orders"\n'
    )
    found = settings(text, tmp_path / "pipeline.toml")
    orders = found.defaults_of("s", "orders")
    assert (orders.partitions_count, orders.create, orders.message_expiry) == (5, False, Expiry.parse("1 day"))
    assert orders.max_size is not None
    assert orders.max_size.bytes == 1 << 30
    other = found.defaults_of("s", "other")
    assert (other.partitions_count, other.create, other.message_expiry) == (3, True, Expiry.parse("2 days"))
    assert found.defaults_of("u", "plain") == found.topic_defaults


TABLE = TOP + '[sources.a.routing.by_table."public.orders"]\nstream = "s"\ntopic = "orders"\n'
IDS = TABLE.replace("partitions_count = 2\n", "").replace(
    "[sources.a.routing]\n",
    '[sources.a.routing]\npartition_key_column = "p"\npartition_key_encoding = "partition_id"\n',
    1,
)
BROKEN = {
    "unknown setting": (
        TABLE + "topic_defaults.partition_count = 3\n",
        "by_table.public.orders.topic_defaults.partition_count: unknown setting (FILE line 12)\n    did you mean parti",
    ),
    "out of range": (
        TABLE + "[sources.a.routing.by_table.'public.orders'.topic_defaults]\npartitions_count = 0\n",
        "topic_defaults.partitions_count: 0 is less than 1 (FILE line 13)",
    ),
    "no expiry": (
        LISTED + 'allow = [{ stream = "s", topic = "*", topic_defaults = { message_expiry = "soon" } }]\n',
        "sources.a.admission.allow.topic_defaults.message_expiry: entry 1: 'soon' is not",
    ),
    "denied": (
        TOP + '[sources.a.admission]\nmode = "denylist"\n'
        'deny = [{ stream = "s", topic = "x", topic_defaults = { create = false } }]\n',
        "sources.a.admission.deny.topic_defaults: unknown setting (FILE line 11)",
    ),
    "two tables of one topic": (
        TABLE + "topic_defaults.partitions_count = 3\n[sources.a.routing.by_table.b]\n"
        'stream = "s"\ntopic = "orders"\ntopic_defaults.partitions_count = 4\n',
        "sources.a.routing: by_table: public.orders and b have different topic_defaults for s/orders: keep",
    ),
    "one pattern twice": (
        LISTED + 'allow = [{ stream = "s", topic = "*", topic_defaults = { partitions_count = 2 } },\n'
        '{ stream = "s", topic = "*", topic_defaults = { partitions_count = 3 } }]\n',
        "sources.a.admission: allow: entry 1 and entry 2 have different topic_defaults for s/*: keep those of one",
    ),
    "partition ids without partitions": (IDS, "needs topic_defaults.partitions_count of at least 2"),
    "partition ids with one partition": (
        IDS + "topic_defaults.partitions_count = 1\n",
        "set topic_defaults.partitions_count of routing.by_table.public.orders to at least 2, or remove it",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_mistakes_of_entries_name_the_line_and_the_way_out(name: str, tmp_path: Path) -> None:
    """CON-80: in the file, before anything starts."""
    text, expected = BROKEN[name]
    with pytest.raises(SettingsError) as caught:
        settings(text, tmp_path / "pipeline.toml")
    message = str(caught.value).replace(str(tmp_path / "pipeline.toml"), "FILE")
    assert expected in message
    assert len(caught.value.problems) == 1, message


def test_partition_ids_need_partitions_where_they_are_used(tmp_path: Path) -> None:
    """CON-80: those of an entry are enough."""
    found = settings(IDS + "topic_defaults.partitions_count = 3\n", tmp_path / "pipeline.toml")
    assert found.defaults_of("s", "orders").partitions_count == 3
