"""A newcomer on an empty machine: from `pip install` to a consumer group, from wheels alone (USE-1).

The machine has Debian, Python, and no network: neither a compiler nor a package index can help. The wheels are those
that the suite has built for this machine, because wheels for all targets (`make release`) would cost every run half an
hour. The dependencies come from wheels in the image, in the locked versions.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.containers.cluster import docker
from tests.distributions.environments import ROOT, UV, build_wheels
from tests.site import documents
from tests.site.scripts import MARK, script_of

IMAGE: Final = f"headrace-newcomer:{os.environ.get('HEADRACE_TAG', 'dev')}"
TUTORIAL: Final = documents.read(Path("docs/tutorials/python.md"))
GROUP_SECONDS: Final = 300
"""Time from an empty machine to a consumer group, as the tutorial promises."""
TYPED_SECONDS: Final = 500
OFFLINE: Final = "--no-index --find-links /wheels --find-links /wheelhouse"
UV_OFFLINE: Final = f"--offline {OFFLINE} --python /usr/bin/python3"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels of this checkout."""
    directory = build_wheels(tmp_path_factory.mktemp("wheels"))
    # The container runs as another user.
    directory.chmod(0o755)
    return directory


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Build the image; its layers last as long as the lock file."""
    context = tmp_path_factory.mktemp("image")
    export = [UV, "export", "--quiet", "--locked", "--no-default-groups", "--extra", "tables", "--no-emit-workspace"]
    locked = subprocess.run([*export, "--no-annotate", "--no-header"], cwd=ROOT, check=True, capture_output=True).stdout
    (context / "locked.txt").write_bytes(locked + (ROOT / ".ci/uv.txt").read_bytes())
    base = os.environ.get("HEADRACE_BASE", "headrace-base:trixie")
    dockerfile = Path(__file__).with_name("newcomer.Dockerfile")
    arguments = ("--build-arg", f"BASE={base}", "--tag", IMAGE, "--file", str(dockerfile), str(context))
    docker("build", "--quiet", *arguments, seconds=500)
    return IMAGE


def typed(machine: str, wheels: Path, script: str, seconds: float) -> str:
    """Run what a newcomer types, in a container without a network; return what was printed."""
    command = [
        "docker",
        "run",
        "--rm",
        "--interactive",
        "--init",
        "--network",
        "none",
        "--volume",
        f"{wheels}:/wheels:ro",
    ]
    result = subprocess.run(
        [*command, machine, "bash", "-euo", "pipefail", "-s"],
        input=script,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_the_tutorial_in_five_minutes(machine: str, wheels: Path) -> None:
    install = f"""
        for program in cc gcc clang cargo rustc node npm; do
            if command -v $program; then exit 1; fi
        done
        python3 -m venv .venv
        source .venv/bin/activate
        pip install --quiet --disable-pip-version-check {OFFLINE} "headrace[tables]"
    """
    script = script_of(TUTORIAL, {}).replace("echo; echo", "echo; echo after $SECONDS s; echo")
    printed = typed(machine, wheels, install + script, TYPED_SECONDS)
    begun, ended = printed.split("stored: ")
    assert "first reads" in begun, "the group has had two members"
    after = re.search(r"^after (\d+) s$", ended, re.MULTILINE)
    assert after is not None, printed
    assert int(after[1]) < GROUP_SECONDS, printed
    sys.stdout.write(f"to a consumer group in {after[1]} s\n")
    assert f"{MARK} {TUTORIAL.blocks[-1].line}" in printed, "the tutorial is typed to its end"


def test_a_server_without_installing_it(machine: str, wheels: Path) -> None:
    """`uvx headrace up`: uv makes the environment, and keeps it."""
    printed = typed(
        machine,
        wheels,
        f"""
        python3 -m venv .uv
        .uv/bin/pip install --quiet --disable-pip-version-check {OFFLINE} uv
        export PATH=$PWD/.uv/bin:$PATH
        uv tool run {UV_OFFLINE} headrace --version
        uv tool run {UV_OFFLINE} --from /wheels/headrace-*.whl headrace --version
        uvx {UV_OFFLINE} headrace up --data data --with-default-root-credentials > server.log 2>&1 &
        until uvx {UV_OFFLINE} headrace ping 2> /dev/null; do sleep 0.2; done
        export HEADRACE_USERNAME=iggy HEADRACE_PASSWORD=iggy
        uvx {UV_OFFLINE} headrace stream create shop
        python3 -c 'import urllib.request as r; print(r.urlopen(
            r.Request("http://127.0.0.1:3000/", headers={{"Accept": "text/html"}})).read().decode())'
        kill %1
        wait %1
        """,
        TYPED_SECONDS,
    )
    assert printed.count("headrace 0.") == 2, printed
    assert "responded in" in printed
    assert "shop" in printed
    assert "<script" in printed, "the console is in the wheel"
