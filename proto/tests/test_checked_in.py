"""Generated files that are checked in: compared, reported and written."""

GENERATOR = "checked_in"


def update(module, arguments, contents):
    return module.update(arguments, description="Generate.", generator="generate.py", contents=contents)


def test_only_what_differs_is_written(generator, tmp_path, capsys):
    stale, extra, new, current = (tmp_path / name for name in ("stale", "extra", "new/file", "current"))
    for path in (stale, extra, current):
        path.write_text("old", encoding="utf-8")
    written_at = current.stat().st_mtime_ns
    contents = {stale: "größer", extra: None, new: "new", current: "old", tmp_path / "absent": None}
    assert update(generator, ["--check"], contents) == 1
    expected = "".join(f"not current: {path} (run python proto/generate.py)\n" for path in (extra, new, stale))
    assert capsys.readouterr().err == expected
    assert stale.read_text(encoding="utf-8") == "old"
    assert update(generator, [], contents) == 0
    assert stale.read_text(encoding="utf-8") == "größer"
    assert new.read_text(encoding="utf-8") == "new"
    assert not extra.exists()
    assert current.stat().st_mtime_ns == written_at
    assert update(generator, ["--check"], contents) == 0
    assert capsys.readouterr().err == ""
