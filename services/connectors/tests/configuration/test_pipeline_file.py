"""Pipeline files: what is in them, and what is wrong with broken ones."""

from __future__ import annotations

import pytest

from headrace_connectors.sources.postgres.cdc import PostgresCdc
from headrace_connectors.sources.random import RandomSource
from headrace_settings import SettingsError

SOURCE = '[sources.a]\nplugin = "random"\nstream = "s"\ntopic = "t"\n'
ROUTED = '[sources.a]\nplugin = "random"\n[sources.a.routing]\ndefault_stream = "s"\ndefault_topic = "t"\n'
CDC = (
    '[sources.a]\nplugin = "postgres_cdc"\nstream = "s"\ntopic = "t"\n'
    '[sources.a.settings]\nurl = "postgresql:///x"\nslot = "orders"\ntables = ["public.orders"]\n'
)
POLLING = SOURCE.replace("random", "postgres") + '[sources.a.settings]\nurl = "postgresql:///x"\ntable = "public.t"\n'


def test_a_whole_file(parse, tmp_path):
    (tmp_path / "password").write_text("secret\n", encoding="utf-8")
    pipeline = parse(
        """
[server]
url = "headrace://log:8090"
username = "connectors"
password_file = "password"

[http]
address = "127.0.0.1:0"

[runtime]
state_directory = "state"

[mappings.events]
paid = { stream = "shop", topic = "paid" }

[sources.orders]
plugin = "postgres_cdc"
codec = "json"

[sources.orders.settings]
url = "postgresql://${PGUSER}@db/shop"
slot = "orders"
tables = ["public.orders", "public.items"]

[sources.orders.routing]
default_stream = "shop"
default_topic = "rest"
by_table."public.orders" = { stream = "shop", topic = "orders" }

[sources.orders.admission]
mode = "allowlist"
allow = [{ stream = "shop", topic = "*" }]

[sources.hooks]
plugin = "webhook"
enabled = false

[sources.hooks.transforms.by_type]
plugin = "route"
topic_field = "event.type"
mapping_url = "http://127.0.0.1:8120/mappings/events"
""",
        PGUSER="anna",
    )
    assert pipeline.server.password.reveal() == "secret"
    assert pipeline.state_directory == tmp_path / "state"
    orders, hooks = pipeline.sources["orders"], pipeline.sources["hooks"]
    assert orders.source.kind is PostgresCdc
    assert orders.source.settings.url.reveal() == "postgresql://anna@db/shop"
    assert orders.settings.routing.by_table["public.orders"].topic == "orders"
    assert (orders.is_routed, hooks.is_routed, hooks.settings.enabled) == (True, True, False)
    assert [transform.name for transform in hooks.transforms] == ["by_type"]
    assert pipeline.mappings["events"]["paid"].topic == "paid"


def test_defaults_are_enough(parse):
    pipeline = parse(SOURCE)
    assert pipeline.sources["a"].source.kind is RandomSource
    assert isinstance(pipeline.sources["a"].source.create(), RandomSource)
    assert not pipeline.sources["a"].is_routed


BROKEN = {
    "no TOML": ("[sources.a", "is not TOML"),
    "empty": ("", "describes no connector: add [sources.NAME]"),
    "unknown table": ("[sorces.a]\n", "sorces: unknown table (FILE line 1)\n    did you mean sources?"),
    "a value for a table": ("sources = 3\n", "sources: is a table of settings, not one setting (FILE line 1)"),
    "a value for a connector": ("[sources]\na = 3\n", "sources.a: is a table: write [sources.a]"),
    "no plugin": ('[sources.a]\nstream = "s"\ntopic = "t"\n', "sources.a.plugin: is not set"),
    "unknown plugin": (SOURCE.replace("random", "randm"), "did you mean random?"),
    "unrelated plugin": (
        SOURCE.replace("random", "kafka"),
        "installed: files, influxdb, ",
    ),
    "plugin of another kind": (SOURCE.replace("random", "route"), "it is one of transforms"),
    "plugin that is no text": (SOURCE.replace('"random"', "7"), "sources.a.plugin: "),
    "unknown setting": (
        SOURCE + "topik = 1\n",
        "sources.a.topik: unknown setting (FILE line 5)\n    did you mean topic?",
    ),
    "unknown setting of the plugin": (
        SOURCE + "[sources.a.settings]\nintervall = 1\n",
        "sources.a.settings.intervall: unknown setting (FILE line 6)\n    did you mean interval?",
    ),
    "wrong type": (SOURCE + "[sources.a.settings]\nbatch_size = 'x'\n", "'x' is not a whole number, from 1 to 100000"),
    "out of range": (SOURCE + "[sources.a.settings]\nbatch_size = 0\n", "0 is less than 1 (FILE line 6)"),
    "no duration": (SOURCE + '[sources.a.settings]\ninterval = "soon"\n', "'soon' is not a duration"),
    "unknown unit": (SOURCE + '[sources.a.settings]\ninterval = "3 fortnights"\n', "is not a unit of time"),
    "no destination": ('[sources.a]\nplugin = "random"\n', "set stream and topic, or routing"),
    "half a destination": (SOURCE.replace('topic = "t"\n', ""), "stream and topic belong together"),
    "unknown codec": (
        SOURCE + 'codec = "jsn"\n',
        "sources.a.codec: 'jsn' is not a plugin of codecs; did you mean json?",
    ),
    "unknown table of a source": (SOURCE + "[sources.a.routng]\n", "did you mean routing?"),
    "routing without topics": (
        '[sources.a]\nplugin = "random"\n[sources.a.routing]\n',
        "names no topic: set topic_column, by_table or default_topic (FILE line 3)",
    ),
    "topic column without default": (
        '[sources.a]\nplugin = "random"\n[sources.a.routing]\ntopic_column = "t"\n',
        "topic_column needs default_topic",
    ),
    "stream column without default": (ROUTED + 'stream_column = "s"\n', None),
    "topic without stream": (
        '[sources.a]\nplugin = "random"\n[sources.a.routing]\ntopic_column = "t"\ndefault_topic = "t"\n',
        "topic_column needs a stream",
    ),
    "two ways to a topic": (
        ROUTED + 'topic_column = "t"\nby_table.x = { stream = "s", topic = "t" }\n',
        "topic_column and by_table exclude each other",
    ),
    "half a table destination": (ROUTED + 'by_table.x = { stream = "s" }\n', "by_table.x.topic: is not set"),
    "unknown key encoding": (
        ROUTED + 'partition_key_encoding = "u32"\n',
        "'u32' is not one of bytes, key_u32, partition_id",
    ),
    "partition ids without a column": (
        ROUTED + 'partition_key_encoding = "partition_id"\n',
        "needs routing.partition_key_column",
    ),
    "partition ids with one partition": (
        ROUTED + 'partition_key_encoding = "partition_id"\npartition_key_column = "p"\n',
        "needs topic_defaults.partitions_count of at least 2",
    ),
    "states of a group in files": (
        SOURCE + '[sharing]\ngroup = "g"\n[state]\nkind = "file"\n',
        'state.kind: other processes of the group cannot read files: set "topic", or remove it (FILE line 8)',
    ),
    "a secret in the topic of a group": (
        SOURCE.replace("random", "webhook")
        + '[sources.a.settings]\ntoken = "hunter2"\n[sharing]\ngroup = "g"\n[http]\ntoken = "t"\n'
        + "[http.configuration]\nenabled = true\n",
        "sources.a.settings.token: is a secret, and with http.configuration the versions of this table are in",
    ),
    "changes over HTTP in a group": (
        SOURCE + '[sharing]\ngroup = "g"\n[http]\ntoken = "t"\n[http.configuration]\nenabled = true\n',
        None,
    ),
    "states in the topic of no group": (
        SOURCE + '[state]\nkind = "topic"\n',
        "state.kind: states in a topic belong to a group: set sharing.group (FILE line 6)",
    ),
    "routing twice": (
        ROUTED + '[sources.a.transforms.route]\ntopic_field = "x"\nmapping_url = "http://x"\n',
        "excludes the transform route, which routes, too: keep one of them",
    ),
    "a path with an empty name": (
        SOURCE + '[sources.a.transforms.route]\ntopic_field = "a..b"\nmapping_url = "http://x"\n',
        "'a..b' is not a path",
    ),
    "unknown transform": (SOURCE + "[sources.a.transforms.rout]\n", "did you mean route?"),
    "a value for a transform": (
        SOURCE + "[sources.a.transforms]\nroute = 1\n",
        "sources.a.transforms.route: is a table",
    ),
    "a transform without its settings": (
        SOURCE + '[sources.a.transforms.route]\nmapping_url = "http://x"\n',
        "sources.a.transforms.route.topic_field: is not set and has no default: add topic_field = ... (FILE line 5)",
    ),
    "a partial wildcard": (
        ROUTED + '[sources.a.admission]\nmode = "allowlist"\nallow = [{ stream = "s", topic = "a*" }]\n',
        "'a*' is neither a name",
    ),
    "everything is allowed": (
        ROUTED + '[sources.a.admission]\nmode = "allowlist"\nallow = [{ stream = "*", topic = "*" }]\n',
        'use mode = "open" instead',
    ),
    "everything is denied": (
        ROUTED + '[sources.a.admission]\nmode = "denylist"\ndeny = [{ stream = "*", topic = "*" }]\n',
        "a denylist of everything refuses every record",
    ),
    "an allowlist without entries": (ROUTED + '[sources.a.admission]\nmode = "allowlist"\n', "needs allow"),
    "a list without its mode": (
        ROUTED + '[sources.a.admission]\nallow = [{ stream = "s", topic = "*" }]\n',
        'allow has no effect with mode = "open"',
    ),
    "a default without a topic": (
        ROUTED + '[sources.a.admission]\non_missing_destination = "default"\n',
        "needs stream and topic",
    ),
    "pauses that shrink": (
        SOURCE + '[sources.a.delivery]\nbackoff_min = "1 min"\n',
        "backoff_min = 1 m is longer than backoff_max = 30 s",
    ),
    "no table": (CDC.replace('"public.orders"', '"orders"'), "'orders' is not a table: write schema.table"),
    "no tables": (CDC.replace('["public.orders"]', "[]"), "tables names no table"),
    "a slot with a dash": (CDC.replace('slot = "orders"', 'slot = "my-slot"'), "is not the name of a slot"),
    "an unset variable": (CDC.replace("///x", "///${DATABASE}"), "the environment variable DATABASE is not set"),
    "two ways to find new rows": (
        POLLING + 'cursor_column = "id"\ndelete_after_read = true\n',
        "set: cursor_column and delete_after_read",
    ),
    "no way to find new rows": (POLLING, "set: none"),
    "a missing file with a password": (
        SOURCE + '[server]\nusername = "u"\npassword_file = "nowhere"\n',
        "server.password_file: cannot read nowhere",
    ),
    "a password twice": (
        SOURCE + '[server]\nusername = "u"\npassword = "p"\npassword_file = "nowhere"\n',
        "is set together with password",
    ),
    "a user without a password": (SOURCE + '[server]\nusername = "u"\n', "username and password belong together"),
    "two logins": (SOURCE + '[server]\nusername = "u"\npassword = "p"\ntoken = "t"\n', "a token replaces"),
    "an open address": (SOURCE + '[http]\naddress = "0.0.0.0:8120"\n', "token is needed"),
    "a short token": (SOURCE + '[http]\naddress = "0.0.0.0:8120"\ntoken = "short"\n', "token has 16 bytes at least"),
    "a short token of metrics": (
        SOURCE + '[http]\naddress = "0.0.0.0:8120"\ntoken = "0123456789abcdef"\nmetrics_token = ""\n',
        "metrics_token has 16 bytes at least",
    ),
    "a webhook with a short token": (
        '[sources.a]\nplugin = "webhook"\nstream = "s"\ntopic = "t"\nsettings = { address = "[::]:1", token = "x" }\n',
        "token has 16 bytes at least",
    ),
    "an open webhook": (
        '[sources.a]\nplugin = "webhook"\nstream = "s"\ntopic = "t"\n[sources.a.settings]\naddress = "0.0.0.0:1"\n',
        "token is needed",
    ),
    "a mapping to nowhere": (SOURCE + '[mappings.m]\nx = "topic"\n', 'write { stream = "...", topic = "..." }'),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(name, parse, tmp_path):
    text, expected = BROKEN[name]
    if expected is None:
        parse(text)
        return
    with pytest.raises(SettingsError) as caught:
        parse(text)
    message = str(caught.value).replace(str(tmp_path / "pipeline.toml"), "FILE")
    assert expected in message
    assert len(caught.value.problems) == 1, message


def test_all_mistakes_are_reported_at_once(parse):
    with pytest.raises(SettingsError) as caught:
        parse(SOURCE.replace("random", "x") + CDC.replace("sources.a", "sources.b").replace("orders", "My-Orders"))
    assert {problem.setting for problem in caught.value.problems} == {"sources.a.plugin", "sources.b.settings.slot"}


SINK = '[sinks.a]\nplugin = "stdout"\n'


def test_a_sink_has_one_topic_or_several(parse):
    one = parse(SINK + 'stream = "s"\ntopic = "t"\n').sinks["a"].settings
    several = (
        parse(SINK + 'topics = [{ stream = "s", topic = "t" }, { stream = "s", topic = "u" }]\n').sinks["a"].settings
    )
    assert [(name.stream, name.topic) for name in one.sources] == [("s", "t")]
    assert [(name.stream, name.topic) for name in several.sources] == [("s", "t"), ("s", "u")]
    assert (one.on_invalid, one.batch_size) == ("dead_letter", 1000)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (SINK, 1, "names its topics once"),
        (SINK + 'stream = "s"\n', 1, "stream and topic belong together"),
        (SINK + 'stream = "s"\ntopic = "t"\ntopics = [{ stream = "s", topic = "u" }]\n', 1, "names its topics once"),
        (SINK + 'topics = [{ stream = "s", topic = "t" }, { stream = "s", topic = "t" }]\n', 1, "names s/t twice"),
        (SINK + 'topics = [{ stream = "s" }]\n', 3, "is not set"),
        (SINK + 'stream = "s"\ntopic = "t"\non_invalid = "ignore"\n', 5, "dead_letter"),
        (SINK + 'stream = "s"\ntopic = "t"\non_invalid = "drop"\ndead_letter_topic = "d"\n', 1, "has no effect"),
        (SINK + 'stream = "s"\ntopic = "t"\nbatch_sise = 5\n', 5, "did you mean batch_size"),
        (SINK + 'stream = "s"\ntopic = "t"\nbatch_size = 0\n', 5, "from 1 to 100000"),
        (SINK.replace("stdout", "stdot") + 'stream = "s"\ntopic = "t"\n', 2, "did you mean stdout"),
        (SINK.replace("stdout", "webhook") + 'stream = "s"\ntopic = "t"\n', 2, "it is one of sources"),
        (SOURCE + SINK + 'stream = "s"\ntopic = "t"\n', 5, "has the same name"),
        (
            SINK
            + 'stream = "s"\ntopic = "t"\n[sinks.a.transforms.route]\ntopic_field = "x"\nmapping_url = "http://x"\n',
            5,
            "a sink does not write to",
        ),
    ],
)
def test_mistakes_of_sinks_are_reported_with_their_lines(parse, text, line, message):
    with pytest.raises(SettingsError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert f"pipeline.toml:{line}" in str(caught.value) or f"line {line}" in str(caught.value)
