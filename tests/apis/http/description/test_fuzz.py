"""Schemathesis: requests generated from the description, and responses checked against it (GW-4, GW-9).

A longer run with other cases:
`HEADRACE_FUZZ_CASES=500 HEADRACE_FUZZ_SEED=$RANDOM pytest tests/apis/http/description/test_fuzz.py -s --timeout 3600`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import StartServer

HERE = Path(__file__).parent
SECRET = "0123456789abcdef0123456789abcdef-only-for-tests"
CASES_PER_OPERATION = int(os.environ.get("HEADRACE_FUZZ_CASES", "1"))
# Every run of the suite has the same cases; a longer run chooses another seed.
SEED = os.environ.get("HEADRACE_FUZZ_SEED", "1")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("accept", "phases"),
    [
        # Random bodies hardly differ between the two media types; a longer run fuzzes both.
        ("application/json", "coverage,stateful" if CASES_PER_OPERATION == 1 else "coverage,fuzzing,stateful"),
        ("application/problem+json", "fuzzing"),
    ],
)
def test_no_request_fails_the_server_or_breaks_the_description(
    start_server: StartServer, tmp_path: Path, accept: str, phases: str
) -> None:
    settings = {
        "HTTP_JWT_ENCODING_SECRET": SECRET,
        # A member that has just joined stays, however long the next request takes. Many are left behind.
        "HTTP_CONSUMER_GROUP_MEMBER_TIMEOUT": "10 s",
        "HTTP_CONSUMER_GROUP_MAX_MEMBERS": "10000",
        # The generated requests try the same few users again and again.
        "LOGIN_FAILURES_MAX": "0",
    }
    server = start_server(settings)
    command = [
        Path(sys.executable).parent / "schemathesis",
        "--config-file",
        HERE / "schemathesis.toml",
        "run",
        f"{server.http_url}/openapi.json",
        "--checks=all",
        f"--phases={phases}",
        f"--max-examples={CASES_PER_OPERATION}",
        f"--seed={SEED}",
        "--continue-on-failure",
        "--no-shrink",
        f"--header=Accept: {accept}",
    ]
    result = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ
        | {
            "SCHEMATHESIS_HOOKS": "tests.apis.http.description.fuzz_hooks",
            "FUZZ_SECRET": SECRET,
            "PYTHONPATH": str(HERE.parents[3]),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(result.stdout[-3000:])  # noqa: T201 - how many cases there were, and the seed
    assert result.returncode == 0, result.stdout[-20_000:]
