"""Mistakes in pipeline files: each is reported with the file, its line, its key, and what to do."""

from __future__ import annotations

import re

import pytest

from headrace_connectors.pipeline_file.pipeline import read_pipeline
from headrace_connectors.plugins.discovery import Plugins
from headrace_settings import SettingsError

SOURCE = '[sources.a]\nplugin = "random"\nstream = "s"\ntopic = "t"\n'
SINK = '[sinks.b]\nplugin = "stdout"\nstream = "s"\ntopic = "t"\n'
ROUTED = '[sources.a]\nplugin = "random"\n[sources.a.routing]\ndefault_stream = "s"\ndefault_topic = "t"\n'
TABLE = 'url = "postgresql:///x"\ntable = "public.t"\ncursor_column = "id"\n'
POSTGRES = SOURCE.replace("random", "postgres") + "[sources.a.settings]\n" + TABLE
CDC = (
    SOURCE.replace("random", "postgres_cdc")
    + '[sources.a.settings]\nurl = "postgresql:///x"\nslot = "orders"\ntables = ["public.orders"]\n'
)
PARQUET = SINK.replace("stdout", "parquet") + '[sinks.b.settings]\npath = "p"\n'
ALLOWED = ROUTED + '[sources.a.admission]\nmode = "allowlist"\n'
ROUTE = '[sources.a]\nplugin = "random"\n[sources.a.transforms.route]\ntopic_field = "x"\n'

MISTAKES = {
    "a text that does not end": (SOURCE + 'codec = "json\n', 5, "sources.a.codec", 'add the "'),
    "no equals sign": (SOURCE + "enabled true\n", 5, "sources.a.enabled true", "write NAME = VALUE"),
    "a table twice": (SOURCE + SOURCE, 5, "sources.a", "below the first of its headers"),
    "a setting twice": (SOURCE + 'stream = "x"\n', 5, "sources.a.stream", "remove one of them"),
    "a text without quotes": (SOURCE + "enabled = yes\n", 5, "sources.a.enabled", "put texts in quotes"),
    "a header that does not end": ("[sources.a\n", 1, "sources.a", "close the bracket"),
    "a list that does not end": (CDC.replace('"]', '"'), 8, "sources.a.settings.tables", "close the bracket"),
    "braces on two lines": (
        ROUTED + 'by_table.x = { stream = "s",\n topic = "t" }\n',
        6,
        "sources.a.routing.by_table.x",
        "a table in braces is on one line",
    ),
    "a wrong type within an entry": (
        ROUTED + 'by_table.x = { stream = "s", topic = "t", topic_defaults = { partitions_count = "many" } }\n',
        6,
        "sources.a.routing.by_table.x.topic_defaults.partitions_count",
        "'many' is not a whole number, from 1 to 1000",
    ),
    "a list of tables": ('[[sources]]\nplugin = "random"\n', 1, "sources", "is a table of settings"),
    "a setting of sinks": (SOURCE + 'linger = "1 s"\n', 5, "sources.a.linger", "is one of sinks; remove it"),
    "a setting of sources": (SINK + "[sinks.b.routing]\n", 5, "sinks.b.routing", "is one of sources; remove it"),
    "settings of the plugin": (
        POSTGRES.replace('table = "public.t"\n', "").replace("[sources.a.s", 'table = "public.t"\n[sources.a.s'),
        5,
        "sources.a.table",
        "it is one of the plugin; move it below [sources.a.settings]",
    ),
    "a setting of the connector": (
        SOURCE + '[sources.a.settings]\ncodec = "json"\n',
        6,
        "sources.a.settings.codec",
        "move it below [sources.a], above other tables",
    ),
    "a top table in a connector": (
        SOURCE + '[sources.a.sharing]\ngroup = "g"\n',
        5,
        "sources.a.sharing",
        "is a table of its own; write [sharing]",
    ),
    "the table of settings misspelt": (
        SOURCE + "[sources.a.setings]\n",
        5,
        "sources.a.setings",
        "did you mean settings",
    ),
    "a secret's file misspelt": (
        SOURCE + '[server]\nusername = "u"\npasword_file = "x"\n',
        7,
        "server.pasword_file",
        "did you mean password_file?",
    ),
    "a file of no secret": (SOURCE + '[server]\nurl_file = "x"\n', 6, "server.url_file", "password_file, timeout"),
    "a secret's file that is a number": (
        SOURCE + '[server]\nusername = "u"\npassword_file = 5\n',
        7,
        "server.password_file",
        "is the path of a file",
    ),
    "a secret's file that is a directory": (
        SOURCE + '[server]\nusername = "u"\npassword_file = "."\n',
        7,
        "server.password_file",
        "Is a directory; correct the path",
    ),
    "a required secret's file that is missing": (
        POSTGRES.replace('url = "postgresql:///x"', 'url_file = "nowhere"'),
        6,
        "sources.a.settings.url_file",
        "cannot read nowhere: No such file",
    ),
    "half a variable": (POSTGRES.replace("///x", "///${X"), 6, "sources.a.settings.url", "write ${NAME}"),
    "an unset variable for the plugin": (
        SOURCE.replace("random", "${P}"),
        2,
        "sources.a.plugin",
        "P is not set: set it",
    ),
    "another scheme": (SOURCE + '[server]\nurl = "http://x:3000"\n', 6, "server.url", "HTTP is another interface"),
    "no port": (SOURCE + '[server]\nurl = "headrace://x:99999"\n', 6, "server.url", "from 1 to 65535"),
    "an address of another database": (
        POSTGRES.replace("postgresql:", "mysql:"),
        6,
        "sources.a.settings.url",
        "write postgresql://USER:PASSWORD@HOST",
    ),
    "no address of a mapping": (
        ROUTE + 'mapping_url = "events"\n',
        5,
        "sources.a.transforms.route.mapping_url",
        "begins with http:// or https://",
    ),
    "an empty name of a stream": (SOURCE.replace('"s"', '""'), 3, "sources.a.stream", "has 1 to 255 bytes"),
    "a long name of a topic": (SOURCE.replace('"t"', f'"{"t" * 256}"'), 4, "sources.a.topic", "has 1 to 255 bytes"),
    "a name with a slash": (SOURCE.replace("sources.a", 'sources."a/b"'), 1, "sources.a/b", "is not a name: rename it"),
    "a name of a mapping with a space": (SOURCE + '[mappings."a b"]\n', 5, "mappings.a b", "is not a name: rename it"),
    "true for a text": (SOURCE.replace('"t"', "true"), 4, "sources.a.topic", "true is not text: put it in quotes"),
    "a date for a text": (SOURCE.replace('"t"', "2020-01-01"), 4, "sources.a.topic", "2020-01-01 is not text"),
    "a table for a text": (SOURCE.replace('"t"', "{ a = 1 }"), 4, "sources.a.topic", '{"a": 1} is not text'),
    "a text for a list": (
        CDC.replace('["public.orders"]', '"public.orders"'),
        8,
        "sources.a.settings.tables",
        'is not a list: write ["public.orders"]',
    ),
    "numbers in a list of texts": (
        CDC.replace('["public.orders"]', '["public.a", 7]'),
        8,
        "sources.a.settings.tables",
        "entry 2: 7 is not text: put it in quotes",
    ),
    "a text for topics": (
        '[sinks.b]\nplugin = "stdout"\ntopics = "s/t"\n',
        3,
        "sinks.b.topics",
        "'s/t' is not a list: write [",
    ),
    "texts in topics": (
        '[sinks.b]\nplugin = "stdout"\ntopics = ["s/t"]\n',
        3,
        "sinks.b.topics",
        'entry 1: \'s/t\' is not a table: write { stream = "...", topic = "..." }',
    ),
    "the second entry of a list": (
        ALLOWED + 'allow = [{ stream = "s", topic = "t" }, { stream = "s", topic = "t*" }]\n',
        8,
        "sources.a.admission.allow",
        "entry 2: 't*' is neither a name",
    ),
    "half an entry": (
        ALLOWED + 'allow = [{ stream = "s" }]\n',
        8,
        "sources.a.admission.allow.topic",
        "entry 1: is not set and has no default: add topic = ...",
    ),
    "a text for a destination": (
        ROUTED + 'by_table."public.a" = "s/t"\n',
        6,
        "sources.a.routing.by_table.public.a",
        'write { stream = "...", topic = "..." }',
    ),
    "an unknown type of a column": (
        PARQUET + 'columns = { id = "int" }\n',
        7,
        "sinks.b.settings.columns.id",
        "'int' is not one of 'bool', 'int64'",
    ),
    "a list for columns": (PARQUET + 'columns = ["id"]\n', 7, "sinks.b.settings.columns", "write { NAME = VALUE }"),
    "a number for a duration": (
        SOURCE + "[sources.a.settings]\ninterval = 5\n",
        6,
        "sources.a.settings.interval",
        '"10 s"',
    ),
    "an unknown unit of size": (
        SOURCE + '[sources.a.topic_defaults]\nmax_size = "1 parsec"\n',
        6,
        "sources.a.topic_defaults.max_size",
        '"10 GiB"',
    ),
    "exactly once for senders that repeat": (
        SOURCE.replace("random", "webhook") + '[sources.a.delivery]\nguarantee = "exactly_once"\n',
        6,
        "sources.a.delivery.guarantee",
        "may send a record twice: remove it",
    ),
    "no module of a function": (
        SOURCE + '[sources.a.transforms.python]\nfunction = "no_such_module:f"\n',
        5,
        "sources.a.transforms.python",
        "there is no module no_such_module: install it",
    ),
    "a key that cannot be read": (
        SOURCE + '[sources.a.transforms.mask_fields]\nhash = ["a"]\nkey_file = "nowhere"\n',
        7,
        "sources.a.transforms.mask_fields.key_file",
        "correct the path, or the file",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_its_file_line_key_and_fix(name, tmp_path):
    """CON-95: one report for each of these mistakes, and no other that follows from it."""
    text, line, key, fix = MISTAKES[name]
    file = tmp_path / "pipeline.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        read_pipeline(file, Plugins(), {})
    (problem,) = caught.value.problems
    assert (problem.setting, problem.origin.file, problem.origin.line) == (key, file, line)
    assert fix in str(problem)
    assert str(problem).splitlines()[0].endswith(f"({file} line {line})")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file or directory; correct the path"), (b"\xd0\xff", "it is not text in UTF-8; correct the path")],
)
def test_a_file_that_cannot_be_read(content, reason, tmp_path):
    """CON-95: the advice names the command that makes one."""
    file = tmp_path / "pipeline.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=re.escape(f"{file}: cannot be read: {reason}")) as caught:
        read_pipeline(file, Plugins(), {})
    assert "headrace connect new" in str(caught.value)


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    file = tmp_path / "pipeline.toml"
    file.write_text(SOURCE, encoding="utf-8-sig")
    assert list(read_pipeline(file, Plugins(), {}).sources) == ["a"]


def test_a_password_is_in_no_report(parse):
    """CON-95: an address that cannot be understood may have one anywhere."""
    for address in ("postgresql://u:geheim@h:p@x/y?z", "mysql://u:geheim@h/x"):
        with pytest.raises(SettingsError) as caught:
            parse(POSTGRES.replace("postgresql:///x", address))
        assert "geheim" not in str(caught.value)
