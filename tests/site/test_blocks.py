"""USE-8: tutorials and how-to guides work. The blocks of a page run in order, in one shell, against a server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tomllib
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
import yaml

from tests.ports import free_port
from tests.postgresql import postgresql
from tests.server_process import ServerProcess
from tests.site import documents
from tests.site.documents import KNOWN, ROOT, Page
from tests.site.scripts import outputs, script_of, unexpected

PAGES = documents.pages("Tutorials", "How-to guides")
RUN = [page for page in PAGES if page.is_run]
LISTENERS = {
    "127.0.0.1:8090": "TCP",
    "127.0.0.1:8092": "WEBSOCKET",
    "127.0.0.1:3000": "HTTP",
    "127.0.0.1:8094": "GRPC",
    "127.0.0.1:8101": "PIPELINES",
}
"""Addresses that documents name, and the listeners that have them."""
LINKED = ("compose", "examples", "proto", "web", ".venv")
"""Directories of the checkout that blocks find where they run."""


def environment(addresses: dict[str, str]) -> dict[str, str]:
    """Variables of a shell in which a server listens where the test wants it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "IGGY_"))}
    driver = {name: os.environ[name] for name in ("HEADRACE_RUNTIME_DRIVER",) if name in os.environ}
    listeners = {f"HEADRACE_{name}_ADDRESS": addresses[usual] for usual, name in LISTENERS.items()}
    more = {
        "PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}",
        "PYTHONPATH": "",
        "HEADRACE_SERVER": addresses["127.0.0.1:8090"],
        "HEADRACE_QUIC_ADDRESS": "127.0.0.1:0",
        "HEADRACE_SYSTEM_SHARDING_CPU_ALLOCATION": "1",
        "HEADRACE_SYSTEM_MEMORY_POOL_SIZE": "1 GiB",
    }
    return inherited | driver | listeners | more


def run(script: str, directory: Path, addresses: dict[str, str], variables: dict[str, str]) -> tuple[int, str]:
    """Run a script in a session of its own, end what it has left running, and return its status and output."""
    work = directory / "work"
    work.mkdir()
    for name in LINKED:
        (work / name).symlink_to(ROOT / name)
    printed = directory / "printed"
    with printed.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=work,
            env=environment(addresses) | variables,
            stdin=subprocess.DEVNULL,
            # A file: a pipe would stay open in a server that a page leaves running.
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(100)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return status, printed.read_text(encoding="utf-8", errors="replace")


@pytest.mark.long(but=3)
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.path))
def test_the_blocks_of_a_page_work(page: Page, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if page.says("no server") is None:
        server: ServerProcess = request.getfixturevalue("start_server")()
        listening = [
            server.address,
            server.websocket_address,
            server.http_address,
            server.grpc_address,
            server.pipelines_address,
        ]
    else:
        listening = [f"127.0.0.1:{free_port()}" for _ in LISTENERS]
    addresses = dict(zip(LISTENERS, listening, strict=True))
    database = postgresql() if page.says("with PostgreSQL") is not None else nullcontext({})
    with database as variables:
        status, printed = run(script_of(page, addresses), tmp_path, addresses, variables)
    assert status == 0, printed
    for block in page.blocks:
        if block.is_run and block.language == "console":
            missing = unexpected(block, outputs(page, printed)[block.line], addresses)
            assert missing is None, f"{block.place}: not printed: {missing}\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.path))
def test_every_block_has_a_language_and_a_form(page: Page) -> None:
    indented = re.findall(r"^ +```\w+", page.text, flags=re.MULTILINE)
    assert not indented, f"{page.path}: blocks within a list are not run: {indented}"
    for block in page.blocks:
        assert block.language in KNOWN, f"{block.place}: a block needs a language: {', '.join(sorted(KNOWN))}"
        if block.language == "toml":
            tomllib.loads(block.code)
        elif block.language == "json":
            json.loads(block.code)
        elif block.language == "yaml":
            assert list(yaml.safe_load_all(block.code)), block.place


def test_what_is_not_run_says_why(show: list[str]) -> None:
    """Blocks that are not run have a reason, and those that another test runs name one that exists."""
    for page in PAGES:
        if (test := page.says("run by")) is not None:
            assert (ROOT / test).is_file(), f"{page.path}: no test {test}"
            show.append(f"{page.path}: run by {test}")
            continue
        if (reason := page.says("not run")) is not None:
            show.append(f"{page.path}: not run: {reason}")
        for block in page.blocks:
            if (test := block.says("run by")) is not None:
                assert (ROOT / test).is_file(), f"{block.place}: no test {test}"
            elif (reason := block.says("not run")) is not None:
                assert len(reason.split()) > 2, f"{block.place}: a reason is a sentence"
                show.append(f"{block.place}: not run: {reason}")
    assert len(RUN) >= 1


def test_sessions_are_read_and_compared() -> None:
    text = (
        "<!-- page: no server -->\n\n```console\n$ echo one \\\n> two\none two\n$ echo 127.0.0.1:30001\n127...1\n```\n"
    )
    page = Page(Path("page.md"), text)
    (block,) = page.blocks
    assert (block.line, block.is_run, page.says("no server")) == (4, True, "")
    script = script_of(page, {"127.0.0.1:3000": "here"})
    assert script.splitlines()[:3] == ["echo one \\", "two", "echo 127.0.0.1:30001"]
    assert unexpected(block, "one two\n127.0.0.1:30001\n", {}) is None
    assert unexpected(block, "one\n127.0.0.1:30001\n", {}) == "one two"
    assert outputs(page, "one two\n-- end of block 4\nrest") == {4: "one two\n"}


def test_comments_above_blocks_are_read() -> None:
    page = Page(
        Path("page.md"),
        "<!-- not run: needs a cluster here -->\n```bash\nfalse\n```\n\n<!-- file: a/b.toml -->\n```toml\nx = 1\n```\n"
        "\n```python\nx = 1\n```\n\n<!-- continues -->\n```python\nprint(x)\n```\n",
    )
    assert [block.is_run for block in page.blocks] == [False, False, True, True]
    script = script_of(page, {})
    assert "false" not in script
    assert "mkdir -p \"$(dirname a/b.toml)\"\ncat > a/b.toml <<'END_OF_BLOCK'\nx = 1\nEND_OF_BLOCK" in script
    assert "x = 1\nprint(x)\nEND_OF_BLOCK" in script
