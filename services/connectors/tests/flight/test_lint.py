"""Pipeline files that ask for several batches in flight where there can be one."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from headrace_connectors.contract import Batch, Polling, Settings, Source
from headrace_connectors.pipeline_file.pipeline import parse_pipeline
from headrace_connectors.plugins.discovery import Plugins
from headrace_settings import SettingsError


class OneAtATime(Source):
    """Is not `Pipelined`."""

    settings_type = Settings

    def __init__(self, settings):
        raise AssertionError("a check creates nothing")

    def mode(self):
        return Polling(destructive=False)

    async def poll(self):
        return Batch([])

    async def commit(self):
        """Forget it."""


HEAD = '[sources.a]\nplugin = "{}"\nstream = "s"\ntopic = "t"\n[sources.a.settings]\n'
TAIL = "[sources.a.delivery]\nbatches_in_flight = 4\n"
POSTGRES = HEAD.format("postgres") + 'url = "postgresql:///x"\ntable = "public.t"\n'
CDC = HEAD.format("postgres_cdc") + 'url = "postgresql:///x"\nslot = "o"\ntables = ["public.o"]\n'
FILES = HEAD.format("files") + 'paths = ["x"]\nformat = "lines"\n'
WHERE = "sources.a.delivery.batches_in_flight: needs a source that is polled ahead, and "
REFUSED = {
    "not pipelined": (HEAD.format("mine"), "the plugin mine is not (`Pipelined`): choose another one; or set it to 1"),
    "rows that are deleted": (POSTGRES + "delete_after_read = true\n", "set cursor_column; or set it to 1"),
    "rows that are marked": (POSTGRES + 'processed_column = "d"\n', "set cursor_column; or set it to 1"),
    "functions": (CDC + 'method = "functions"\n', 'set decoder = "pgoutput" and method = "replication"; or'),
    "test_decoding": (CDC + 'decoder = "test_decoding"\n', 'set decoder = "pgoutput" and method = "replication"; or'),
    "files that are deleted": (FILES + "delete_after_read = true\n", "unset settings.delete_after_read; or"),
}
ALLOWED = [POSTGRES + 'cursor_column = "id"\n', CDC, FILES, HEAD.format("random"), HEAD.format("webhook")]


@pytest.fixture
def checked(tmp_path):
    """Check the text of a pipeline file; one of the plugins can send one batch at a time."""

    def check(text):
        mine = EntryPoint("mine", f"{__name__}:OneAtATime", "headrace_connectors.v1.sources")
        json = EntryPoint("json", "headrace_connectors.codecs.plain:JsonCodec", "headrace_connectors.v1.codecs")
        plugins = Plugins([mine, json]) if '"mine"' in text else Plugins()
        return parse_pipeline(tmp_path / "pipeline.toml", text, plugins, {})

    return check


@pytest.mark.parametrize("name", REFUSED)
def test_a_source_that_cannot_be_polled_ahead_is_refused(name, checked, tmp_path):
    """CON-70: with file, key and what to do, before anything starts."""
    text, expected = REFUSED[name]
    with pytest.raises(SettingsError) as caught:
        checked(text + TAIL)
    messages = [str(one) for one in caught.value.problems if "batches_in_flight" in str(one)]
    assert len(messages) == 1
    assert messages[0].startswith(WHERE)
    assert expected in messages[0]
    assert f"{tmp_path / 'pipeline.toml'} line" in messages[0]


@pytest.mark.parametrize("text", ALLOWED)
def test_others_are_accepted(text, checked):
    assert checked(text + TAIL).sources["a"].settings.delivery.batches_in_flight == 4


def test_an_order_across_topics_is_kept_by_one_batch_alone(checked):
    with pytest.raises(SettingsError, match="max_concurrent_destinations = 1 keeps the order across topics"):
        checked(HEAD.format("random") + TAIL + "max_concurrent_destinations = 1\n")
