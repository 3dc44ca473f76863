"""Build a release: `make release`. What it makes is described in docs/guides/release.md.

python -m release                              build everything in `dist`
python -m release --rehearse                   the same from a checkout that is not ready: changes are unreleased
python -m release --check                      build nothing; exit with 1 and say what speaks against a release
python -m release --target x86_64-unknown-linux-gnu   build the native core for this target only
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path

from release import checkout, contents, finished
from release.building import PYTHON_DISTRIBUTIONS, TARGETS, Target, build_core, build_python
from release.checkout import ROOT


def main(arguments: list[str]) -> int:
    """Run the command and return its exit status."""
    options = _options(arguments)
    targets = [target for target in TARGETS if target.triple in (options.target or {it.triple for it in TARGETS})]
    version = checkout.version()
    if found := checkout.problems(is_rehearsal=options.rehearse):
        return _refused(f"{version} cannot be released", found)
    if options.check:
        return 0
    output: Path = options.output.resolve()
    if output == ROOT or output in ROOT.parents:
        return _refused("the output directory is emptied first", [f"--output: {output} contains the checkout"])
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    uv = options.uv.absolute()
    wheels = _build(targets, output, uv)
    found = finished.missing(wheels, targets, version)
    found += [f"{wheel.name}: {problem}" for wheel in wheels for problem in finished.problems(wheel, version)]
    if found:
        return _refused("the wheels are not complete", found)
    if f"{platform.machine()}-unknown-linux-gnu" in {target.triple for target in targets}:
        with tempfile.TemporaryDirectory() as directory:
            _say("installing headrace from the wheels, without a compiler")
            python = finished.install(output, Path(directory, "environment"), version, uv)
            _say("listing what the wheels consist of")
            contents.describe_python(python, output, version)
    else:
        _say("not installed, and its packages not listed: no wheel is for this machine")
    contents.describe_console(output, version)
    for wheel in wheels:
        if wheel.name.startswith("headrace_core-"):
            contents.describe_core(wheel, output)
    contents.hash_files(output)
    for path in sorted(output.iterdir()):
        sys.stdout.write(f"{path.stat().st_size:>10}  {path.name}\n")
    return 0


def _build(targets: list[Target], output: Path, uv: Path) -> list[Path]:
    for target in targets:
        began = time.monotonic()
        _say(f"building headrace-core for {target.tag}; this takes minutes")
        build_core(target, output)
        _say(f"built in {time.monotonic() - began:.0f} s")
    for distribution in PYTHON_DISTRIBUTIONS:
        _say(f"building {distribution}")
        build_python(distribution, output, uv)
    return sorted(output.glob("*.whl"))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m release", description="Build the wheels of a release.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="directory of the result, which is emptied")
    parser.add_argument(
        "--target", action="append", choices=[target.triple for target in TARGETS], help="only this target; repeatable"
    )
    parser.add_argument("--rehearse", action="store_true", help="accept unreleased and uncommitted changes")
    parser.add_argument("--check", action="store_true", help="build nothing, only say what is not ready")
    parser.add_argument("--uv", type=Path, default=ROOT / ".cache/uv/bin/uv", help="the program uv")
    return parser.parse_args(arguments)


def _say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def _refused(title: str, problems: list[str]) -> int:
    sys.stderr.write(f"error: {title}:\n")
    for problem in problems:
        sys.stderr.write(f"  - {problem}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
