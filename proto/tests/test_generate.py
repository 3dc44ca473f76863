"""Modules that git does not have are made when they are needed, completely, and only then (USE-1)."""

import shutil
from pathlib import Path

import pytest

import headrace_proto

GENERATOR = "generate"
PROTO_DIRECTORY = Path(__file__).resolve().parents[1]
INSTALLED = Path(headrace_proto.__file__).parent


@pytest.fixture
def root(tmp_path):
    """A checkout: the sources, and a module that was written by hand."""
    ignored = shutil.ignore_patterns("tests", "__pycache__", "metadata", "gateway", "partition", "control")
    shutil.copytree(PROTO_DIRECTORY, tmp_path / "proto", ignore=ignored)
    package = tmp_path / "core/python/headrace_proto"
    package.mkdir(parents=True)
    (package / "limits.py").write_text("by hand")
    return tmp_path


@pytest.fixture
def package(root):
    return root / "core/python/headrace_proto"


def contents(package):
    return {path.relative_to(package): path.read_text() for path in package.rglob("*") if path.is_file()}


def test_what_is_made_is_what_is_installed(generator, root, package, capsys):
    assert generator.main(root) == 0
    assert "made 7 files" in capsys.readouterr().out
    names = {"catalog/__init__.py", "catalog/v1/__init__.py", "catalog/v1/catalog_pb2.py", "catalog/v1/catalog_pb2.pyi"}
    found = contents(package)
    assert found.pop(Path("limits.py")) == "by hand"
    assert {str(path) for path in found} == names | {"commands.py", "errors.py"}
    assert found == {path: (INSTALLED / path).read_text() for path in found}


def test_nothing_is_written_until_something_differs(generator, root, package, capsys):
    generator.main(root)
    capsys.readouterr()
    stamp = (root / generator.STAMP).stat().st_mtime_ns
    made = contents(package)
    assert generator.main(root) == 0
    assert capsys.readouterr().out == ""
    assert (root / generator.STAMP).stat().st_mtime_ns == stamp
    # A module is lost, or is another one, or there is one too many: a checkout of another commit does that.
    message, extra = package / "catalog/v1/catalog_pb2.py", package / "old/v1/old_pb2.py"
    message.unlink()
    (package / "errors.py").write_text("of another commit")
    extra.parent.mkdir(parents=True)
    extra.write_text("of another commit")
    assert generator.main(root) == 0
    assert contents(package) == made
    source = root / "proto/headrace/catalog/v1/catalog.proto"
    source.write_text(f"{source.read_text()}\nmessage Another {{}}\n")
    assert generator.main(root) == 0
    assert "Another" in (package / "catalog/v1/__init__.py").read_text()


def test_a_run_that_ended_early_is_done_again(generator, root, package, monkeypatch):
    class Interrupted(Exception):
        pass

    def replace(path, target):
        if target.name == "errors.py":
            raise Interrupted
        path.rename(target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", replace)
        with pytest.raises(Interrupted):
            generator.main(root)
    assert (package / "catalog/v1/catalog_pb2.py").exists()
    assert not (package / "errors.py").exists()
    assert generator.main(root) == 0
    assert (package / "errors.py").read_text() == (INSTALLED / "errors.py").read_text()


def test_a_faulty_source_is_refused_until_it_is_mended(generator, root, capfd):
    generator.main(root)
    source = root / "proto/headrace/catalog/v1/catalog.proto"
    text = source.read_text()
    source.write_text(f"{text}\nmessage {{")
    for _ in range(2):
        with pytest.raises(SystemExit):
            generator.main(root)
        assert "catalog.proto" in capfd.readouterr().err
    source.write_text(text)
    assert generator.main(root) == 0


def test_the_compilers_are_named_if_they_are_missing(generator, root, monkeypatch):
    monkeypatch.setattr(generator, "COMPILERS", ("a-compiler-that-is-not-installed",))
    with pytest.raises(SystemExit, match=r"needs a-compiler-that-is-not-installed: use \.venv/bin/python"):
        generator.main(root)
