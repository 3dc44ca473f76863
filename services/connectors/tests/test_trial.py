"""Trials of sources: one poll that stores, commits and creates nothing."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path

from tests.ports import free_port

from headrace_connectors.admission.table import NotCreated
from headrace_connectors.runtime.trials.source_trial import Trial, try_source
from headrace_connectors.state.store import StateStore

TOPIC = 'stream = "s"\ntopic = "t"\n'


async def has_two_partitions(_name) -> int:
    return 2


def attempt(pipeline, directory: Path, *, partitions_count=has_two_partitions, seconds: float = 30.0) -> Trial:
    (spec,) = pipeline.sources.values()
    store = StateStore.unlocked(directory)
    return asyncio.run(try_source(spec, store, partitions_count, records_max=3, seconds=seconds))


def test_the_slot_and_the_publication_are_not_created(parse, database, database_url, tmp_path):
    database.execute("CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders SELECT generate_series(1, 5)")
    text = (
        f'[sources.a]\nplugin = "postgres_cdc"\n{TOPIC}[sources.a.settings]\nurl = "{database_url}"\n'
        'slot = "trial"\ntables = ["public.orders"]\n'
    )
    trial = attempt(parse(text), tmp_path)
    assert [json.loads(record.payload)["row"] for record in trial.records] == [{"id": 1}, {"id": 2}, {"id": 3}]
    without_snapshot = attempt(parse(text + 'snapshot = "never"\n'), tmp_path)
    assert "the slot trial does not exist" in (without_snapshot.error or "")
    assert database.execute("SELECT slot_name FROM pg_replication_slots WHERE slot_name = 'trial'").fetchall() == []
    assert database.execute("SELECT pubname FROM pg_publication").fetchall() == []


def test_changes_stay_in_the_slot(parse, database, database_url, tmp_path):
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)")
    database.execute("CREATE PUBLICATION kept FOR TABLE orders")
    database.execute("SELECT pg_create_logical_replication_slot('kept', 'pgoutput')")
    database.execute("INSERT INTO orders VALUES (7)")
    text = (
        f'[sources.a]\nplugin = "postgres_cdc"\n{TOPIC}[sources.a.settings]\nurl = "{database_url}"\n'
        'slot = "kept"\ntables = ["public.orders"]\nsnapshot = "never"\n'
    )
    for _ in range(2):
        (record,) = attempt(parse(text), tmp_path).records
        assert json.loads(record.payload)["row"] == {"id": 7}


def test_rows_are_not_deleted(parse, database, database_url, tmp_path):
    """Rows that a run before has stored, and not come to, stay as well."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders SELECT generate_series(1, 5)")
    text = (
        f'[sources.a]\nplugin = "postgres"\n{TOPIC}[sources.a.settings]\nurl = "{database_url}"\n'
        'table = "public.orders"\ndelete_after_read = true\n'
    )

    state = {"format": 1, "source": "a", "plugin": "postgres", "state": {"version": 1, "state": [[1], [2]]}}
    (tmp_path / "a.state.json").write_text(json.dumps(state))
    trial = attempt(parse(text), tmp_path)
    assert trial.error is None
    assert [json.loads(record.payload)["id"] for record in trial.records] == [1, 2, 3]
    assert database.execute("SELECT count(*) FROM orders").fetchone() == (5,)
    assert json.loads((tmp_path / "a.state.json").read_text()) == state


def test_the_state_of_the_source_is_continued(parse, database, database_url, tmp_path):
    database.execute("CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders SELECT generate_series(1, 5)")
    text = (
        f'[sources.a]\nplugin = "postgres"\n{TOPIC}[sources.a.settings]\nurl = "{database_url}"\n'
        'table = "public.orders"\ncursor_column = "id"\n'
    )
    state = {"format": 1, "source": "a", "plugin": "postgres", "state": {"version": 1, "state": [[3]]}}
    (tmp_path / "a.state.json").write_text(json.dumps(state))
    trial = attempt(parse(text), tmp_path)
    assert [json.loads(record.payload)["id"] for record in trial.records] == [4, 5]


def test_a_caller_of_a_webhook_keeps_what_it_sent(parse, tmp_path):
    port = free_port()
    pipeline = parse(f'[sources.a]\nplugin = "webhook"\n{TOPIC}[sources.a.settings]\naddress = "127.0.0.1:{port}"\n')
    (spec,) = pipeline.sources.values()

    def send() -> int:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/", b'{"id": 1}')
        while True:
            try:
                urllib.request.urlopen(request, timeout=30)
            except urllib.error.HTTPError as error:
                return error.code
            except OSError:
                # The source does not listen yet.
                continue
            else:
                return 200

    async def both() -> tuple[Trial, int]:
        trial = try_source(spec, StateStore.unlocked(tmp_path), has_two_partitions, records_max=3, seconds=30.0)
        return await asyncio.gather(trial, asyncio.to_thread(send))

    trial, status = asyncio.run(both())
    assert ([record.payload for record in trial.records], status) == (['{"id":1}'], 503)


ROUTED = (
    '[sources.a]\nplugin = "random"\n[sources.a.settings]\ninterval = "1 ms"\n[sources.a.routing]\n'
    'default_stream = "s"\ndefault_topic = "t"\n'
)


def test_each_record_has_its_outcome(parse, tmp_path):
    text = (
        ROUTED + 'partition_key_column = "id"\npartition_key_encoding = "partition_id"\n'
        "[sources.a.topic_defaults]\npartitions_count = 2\n"
        '[sources.a.admission]\non_admission_failure = "drop"\n'
    )
    trial = attempt(parse(text), tmp_path)
    assert [(record.outcome, record.partition, record.reason) for record in trial.records] == [
        ("sent", 0, None),
        ("sent", 1, None),
        ("dropped", None, "not admitted: partition_id_out_of_range"),
    ]
    refused = attempt(parse(text.replace('"drop"', '"error"')), tmp_path)
    assert refused.records[2].outcome == "refused"
    assert "s/t has the partitions 0 to 1" in (refused.records[2].reason or "")


def test_topics_that_would_be_created(parse, tmp_path):
    async def is_missing(_name) -> None:
        return None

    async def is_refused(_name) -> int:
        raise NotCreated("s/t does not exist")

    assert attempt(parse(ROUTED), tmp_path, partitions_count=is_missing).new_topics == [("s", "t")]
    refused = attempt(parse(ROUTED), tmp_path, partitions_count=is_refused)
    assert {(record.outcome, record.reason) for record in refused.records} == {("refused", "s/t does not exist")}


def test_a_source_without_records_is_reported(parse, tmp_path):
    trial = attempt(parse(ROUTED.replace("1 ms", "1 h")), tmp_path, seconds=0.05)
    assert (trial.records, trial.error) == ((), "there were no records within 0.05 s")


def test_settings_that_name_fields_which_no_record_has_are_named(parse, tmp_path):
    """A misspelt column routes every record to the default, and a misspelt field leaves it as it is."""
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"id": {number}, "kind": "paid"}}\n' for number in range(3)))
    text = f"""
[sources.a]
plugin = "files"
stream = "s"
topic = "t"
[sources.a.settings]
paths = ["{tmp_path / "rows.jsonl"}"]
format = "json_lines"
[sources.a.routing]
topic_column = "knd"
partition_key_column = "id"
default_stream = "s"
default_topic = "other"
[sources.a.transforms.rename_fields]
fields = {{ kind = "type", prise = "price" }}
[sources.a.transforms.mask_fields]
redact = ["type", "user.mail"]
"""
    trial = attempt(parse(text), tmp_path)
    assert trial.error is None
    assert list(trial.warnings) == [
        "routing.topic_column: the field 'knd' is missing in all 3 records; they have id, kind",
        "rename_fields.fields: the field 'prise' is missing in all 3 records; they have id, kind",
        "mask_fields.redact: the field 'user.mail' is missing in all 3 records; they have id, type",
    ]
