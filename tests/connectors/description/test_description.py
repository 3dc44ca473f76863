"""CON-79: the HTTP interface describes itself, and answers as it says. A longer run with other cases:

`HEADRACE_FUZZ_CASES=500 HEADRACE_FUZZ_SEED=$RANDOM pytest tests/connectors/description -s --timeout 3600`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
import urllib.request
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from jsonschema_rs import meta

import headrace
import headrace_connectors_api as api
from headrace_connectors.http import models
from tests.connectors.process import Connectors, until

HERE = Path(__file__).parent
CASES_PER_OPERATION = int(os.environ.get("HEADRACE_FUZZ_CASES", "3"))
# Every run of the suite has the same cases; a longer run chooses another seed.
SEED = os.environ.get("HEADRACE_FUZZ_SEED", "1")


def pipeline(stream: str) -> str:
    """A source that writes, a sink that reads, and a mapping."""
    return (
        f'[sources.made]\nplugin = "random"\nstream = "{stream}"\ntopic = "t"\n[sources.made.settings]\n'
        f'interval = "50 ms"\n[sinks.shown]\nplugin = "stdout"\nstream = "{stream}"\ntopic = "t"\n'
        f'[mappings.kinds]\nx = {{ stream = "{stream}", topic = "x" }}\n'
    )


@pytest.fixture
def described(connectors: Connectors, client: headrace.Client, stream: str) -> Connectors:
    """Connectors that accept changes, and have worked."""
    client.create_stream(stream)
    client.create_topic(stream, "t", partitions=1)
    connectors.token = "changes"
    connectors.run(pipeline(stream))
    until(lambda: all(one["records_count"] for one in connectors.get("/connectors")))
    return connectors


def unknown_fields(value: Any, kind: Any, place: str = "") -> list[str]:
    """Return the fields of an answer that its model does not have."""
    if isinstance(value, list):
        return [name for one in value for name in unknown_fields(one, get_args(kind)[0], place)]
    alternatives = get_args(kind) if get_origin(kind) is types.UnionType else (kind,)
    model = next((one for one in alternatives if isinstance(one, type) and issubclass(one, msgspec.Struct)), None)
    if not isinstance(value, dict) or model is None:
        return []
    fields = get_type_hints(model)
    found = [f"{place}.{name}" for name in value if name not in fields]
    for name in value.keys() & fields.keys():
        found += unknown_fields(value[name], fields[name], f"{place}.{name}")
    return found


def test_answers_have_the_described_fields(described: Connectors, stream: str) -> None:
    """CON-79: all of them, and no other ones."""
    definition = {"plugin": "random", "stream": stream, "topic": "t", "isolation": "process"}
    changed = described.post("/connectors/made/versions", {"definition": definition})
    described.becomes("made", "running")
    invalid = described.refused("/connectors/made/versions", "POST", {"definition": {"plugin": "randm"}})

    def sampled() -> Any:
        found = described.get("/connectors/made/history")
        return found if found["samples"] else None

    answers: list[tuple[Any, Any]] = [
        (described.get("/connectors"), list[api.ConnectorAnswer]),
        (described.get("/connectors/made/destinations"), list[api.DestinationAnswer]),
        (
            until(lambda: found if (found := described.get("/connectors/made/history"))["samples"] else None),
            api.ConnectorHistoryAnswer,
        ),
        (changed, api.ConnectorVersionsAnswer),
        (described.get("/mappings/kinds"), dict[str, models.TopicAnswer]),
        (described.get("/mappings"), models.MappingsAnswer),
        (invalid, models.ProblemAnswer),
    ]
    for answer, kind in answers:
        msgspec.convert(answer, kind)
        assert unknown_fields(answer, kind) == []
    assert invalid["problems"]


def test_every_call_is_described(described: Connectors) -> None:
    """CON-79: the description is sound, open to all, and its operations are served."""
    with urllib.request.urlopen(f"{described.url}/openapi.json", timeout=60) as response:
        text = response.read().decode()
    document = msgspec.json.decode(text)
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema)
    assert set(re.findall(r'"#/components/schemas/(\w+)"', text)) <= schemas.keys()
    operations = {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    documented = Path("docs/connectors-operation.md").read_text(encoding="utf-8")
    for path in re.findall(r"^\| `(?:GET|POST|PUT|DELETE) (/[^`]*)`", documented, flags=re.MULTILINE):
        wanted = path.replace("{n}", "{number}").replace("{name}", "{key}")
        assert any(one.endswith(f" {wanted}") for one in operations), path
    assert len({operation["operationId"] for operation in operations.values()}) == len(operations)
    for entry, operation in operations.items():
        assert operation["summary"].endswith("."), entry
        method, path = entry.split()
        concrete = path.replace("{key}", "nothing").replace("{number}", "1")
        if operation["security"]:
            assert described.refused(concrete, method, Authorization="Bearer wrong")["status"] == 401
        if "{key}" in path and method == "GET":
            problem = described.refused(concrete, method)
            assert (problem["status"], "404" in operation["responses"]) == (404, True), entry


@pytest.mark.long
@pytest.mark.timeout(600)
def test_no_request_fails_the_process_or_breaks_the_description(described: Connectors, tmp_path: Path) -> None:
    """CON-79: requests are generated from the description, and their answers checked against it."""
    command = [
        Path(sys.executable).parent / "schemathesis",
        "--config-file",
        HERE / "schemathesis.toml",
        "run",
        f"{described.url}/openapi.json",
        "--checks=all",
        "--phases=coverage,fuzzing",
        f"--max-examples={CASES_PER_OPERATION}",
        f"--seed={SEED}",
        "--continue-on-failure",
        "--no-shrink",
        f"--header=Authorization: Bearer {described.token}",
        # Without the token it would be another request than the description says.
        "--exclude-checks=ignored_auth",
    ]
    result = subprocess.run(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(result.stdout[-3000:])  # noqa: T201 - how many cases there were, and the seed
    assert result.returncode == 0, result.stdout[-20_000:]
    assert not described.has_ended
