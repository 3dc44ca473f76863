"""Checks of `make release` before and after it builds (USE-1)."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

from release import checkout, contents, finished
from release.building import TARGETS

ROOT: Final = Path(__file__).resolve().parents[2]
READ: Final = (
    *("CHANGELOG.md", "LICENSE", "pyproject.toml", "core/Cargo.lock", "core/Cargo.toml", "core/python/LICENSE"),
    *("spark/LICENSE", "spark/pyproject.toml", "web/client/LICENSE"),
    *("web/package.json", "web/client/package.json", "web/console/package.json"),
)
"""Files that are looked at before a release."""


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A repository from which version 1.2.3 can be released."""
    for name in READ:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / name).read_text(encoding="utf-8")
        if name != "core/Cargo.lock":
            text = text.replace(checkout.version(), "1.2.3")
        (tmp_path / name).write_text(text, encoding="utf-8")
    lock = tmp_path / "core/Cargo.lock"
    own = f'name = "headrace-python"\nversion = "{checkout.version()}"'
    lock.write_text(lock.read_text(encoding="utf-8").replace(own, own.replace(checkout.version(), "1.2.3")))
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-11-30\n\n### Added\n\n- It.\n"
    )
    committed(tmp_path)
    return tmp_path


def committed(directory: Path) -> None:
    """Commit everything."""
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    for command in (["init", "--quiet"], ["add", "."], [*identity, "commit", "--quiet", "--message", "a state"]):
        subprocess.run(["git", *command], cwd=directory, check=True)


def test_this_checkout_has_one_version_everywhere() -> None:
    assert checkout.problems(is_rehearsal=True) == []
    assert len(checkout.versions()) >= 12


def test_a_repository_that_is_ready(ready: Path) -> None:
    assert checkout.problems(ready) == []
    assert checkout.commit_time(ready) > 1_700_000_000


@pytest.mark.parametrize(
    ("path", "old", "new", "problem"),
    [
        (
            "spark/pyproject.toml",
            'version = "1.2.3"',
            'version = "1.2.2"',
            "spark/pyproject.toml: the version is 1.2.2",
        ),
        (
            "pyproject.toml",
            "headrace-core==1.2.3",
            "headrace-core==1.2.2",
            "requirement headrace-core: the version is 1.2.2",
        ),
        ("core/Cargo.toml", 'version = "1.2.3"', 'version = "1.2.4"', "core/Cargo.toml: the version is 1.2.4"),
        ("web/client/package.json", "1.2.3", "1.2.4", "web/client/package.json: the version is 1.2.4"),
        ("CHANGELOG.md", "## 1.2.3 - ", "## 1.2.2 - ", "CHANGELOG.md has no section of 1.2.3"),
        ("CHANGELOG.md", "## Unreleased\n", "## Unreleased\n\n- More.\n", "CHANGELOG.md has unreleased changes"),
        ("spark/LICENSE", "Apache", "Other", "spark/LICENSE differs from LICENSE"),
    ],
)
def test_what_speaks_against_a_release(ready: Path, path: str, old: str, new: str, problem: str) -> None:
    file = ready / path
    changed = file.read_text(encoding="utf-8").replace(old, new, 1)
    assert changed != file.read_text(encoding="utf-8")
    file.write_text(changed, encoding="utf-8")
    found = checkout.problems(ready)
    assert any(problem in line for line in found), found
    assert f"the checkout has uncommitted changes, M {path} among them: commit them" in found


def test_a_rehearsal_accepts_what_is_unreleased(ready: Path) -> None:
    (ready / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- It.\n", encoding="utf-8")
    assert checkout.problems(ready, is_rehearsal=True) == []
    (ready / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n", encoding="utf-8")
    assert [line.partition(",")[0] for line in checkout.problems(ready, is_rehearsal=True)] == [
        "CHANGELOG.md has no changes"
    ]


def test_an_output_directory_with_the_checkout_is_not_emptied() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "release", "--rehearse", "--output", ROOT.parent],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert result.returncode == 1
    assert "contains the checkout" in result.stderr


def test_wheels_of_a_release_are_all_there() -> None:
    names = [
        *("headrace-1.0.0-py3-none-any.whl", "pyspark_headrace-1.0.0-py3-none-any.whl"),
        *(f"headrace_core-1.0.0-cp311-abi3-{target.tag}.whl" for target in TARGETS),
    ]
    wheels = [Path(name) for name in names]
    assert finished.missing(wheels, list(TARGETS), "1.0.0") == []
    linux = Path("headrace_core-1.0.0-cp311-abi3-linux_x86_64.whl")
    assert finished.missing([*wheels[1:], linux], list(TARGETS), "1.0.0") == [
        "headrace-1.0.0-py3-none-any.whl is missing",
        f"{linux} is not part of the release",
    ]


def test_incomplete_wheels_are_found(tmp_path: Path) -> None:
    wheel = tmp_path / "headrace-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("headrace/tests/test_it.py", "")
        archive.writestr("headrace-1.0.0.dist-info/METADATA", "Metadata-Version: 2.4\nName: headrace\nVersion: 1.0.0\n")
    found = finished.problems(wheel, "1.0.1")
    assert "its version is 1.0.0, not 1.0.1" in found
    assert "it does not contain headrace/aio/awaited/admin.py" in found
    assert "it does not contain headrace_gateway/console/static/index.html" in found
    assert "it does not contain the license" in found
    assert "it contains tests or compiled files" in found
    assert "its metadata have no description" in found
    assert "its extras are [], not ['avro', 'delta', 'jobs', 'otel', 'postgres', 'spark', 'tables', 'tracing']" in found


def test_invalid_metadata_are_found(tmp_path: Path) -> None:
    wheel = tmp_path / "headrace-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(
            "headrace-1.0.0.dist-info/METADATA",
            "Metadata-Version: 2.4\nName: headrace\nVersion: 1.0.0\nLicense-Expression: as you like\n",
        )
    (problem,) = finished.problems(wheel, "1.0.0")
    assert problem.startswith("its metadata are invalid: ")


def test_hashes_are_in_the_form_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "one.whl").write_bytes(b"one")
    (tmp_path / "two.json").write_bytes(b"two")
    contents.hash_files(tmp_path)
    result = subprocess.run(
        ["sha256sum", "--check", "--strict", contents.SUMS], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert result.stdout.splitlines() == ["one.whl: OK", "two.json: OK"]


def test_crates_are_listed_without_paths_of_this_machine(tmp_path: Path) -> None:
    wheel = tmp_path / "headrace_core-1.0.0-cp311-abi3-manylinux_2_28_x86_64.whl"
    listed = {"components": [{"bom-ref": f"path+file://{ROOT}/core/crates/wire#headrace-wire@1.0.0"}]}
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("headrace_core-1.0.0.dist-info/sboms/headrace-python.cyclonedx.json", json.dumps(listed))
    written = contents.describe_core(wheel, tmp_path)
    assert json.loads(written.read_text(encoding="utf-8")) == {
        "components": [{"bom-ref": "path+file:///core/crates/wire#headrace-wire@1.0.0"}]
    }


def test_a_wheel_without_the_console_is_not_built(tmp_path: Path) -> None:
    """The hook of the build, in a project of its own; it also makes the calls for asyncio."""
    calls = Path("client/src/headrace/sdk/blocking")
    made = tmp_path / "client/src/headrace/aio/awaited/admin.py"
    shutil.copytree(ROOT / calls, tmp_path / calls)
    for path in (Path("release/build_hook.py"), Path("client/generate_aio.py")):
        shutil.copy(ROOT / path, tmp_path / (path if path.parts[0] == "client" else path.name))
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "it"\nversion = "1"\n'
        '[tool.hatch.build.targets.wheel]\npackages = ["services"]\n'
        '[tool.hatch.build.targets.wheel.hooks.custom]\npath = "build_hook.py"\n'
    )
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    refused = subprocess.run(build, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "the console is not built" in refused.stderr
    assert "run `make setup`" in refused.stderr
    index = tmp_path / "services/gateway/src/headrace_gateway/console/static/index.html"
    index.parent.mkdir(parents=True)
    index.touch()
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    assert list(tmp_path.glob("dist/*.whl"))
    assert "async def streams(" in made.read_text(encoding="utf-8")
