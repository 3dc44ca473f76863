"""USE-1: the commands of the README and the documentation on Spark work as printed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.server_process import PASSWORD, USERNAME, ServerProcess

from headrace_core import Client

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_script_of_the_readme(server: ServerProcess) -> None:
    blocks: list[str] = re.findall(
        r"^```\w*\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    (script,) = [block for block in blocks if "pyspark" in block]
    client = Client.connect(server.address)
    client.login(USERNAME, PASSWORD)
    client.create_stream("shop")
    client.create_topic("shop", "orders", 1)
    client.send("shop", "orders", [f"order {number}".encode() for number in range(3)], partition=0)
    client.close()
    # Uses the installed Spark, unlike other tests, which have a SPARK_HOME of their own.
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace("127.0.0.1:8094", server.grpc_address)],
        cwd=ROOT,
        env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"\|\s*2\|.*\|order 2\|", result.stdout), result.stdout
    assert re.search(r"\|\s*0\|\s*3\|", result.stdout), result.stdout
