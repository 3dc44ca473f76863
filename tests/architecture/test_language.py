"""The language of code, comments and documents: the field's terms, as docs/glossary.md lists them."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from tests.architecture.comments import Comment, comments_of
from tests.architecture.words import SUFFIXES, identifiers_of, labels_of, parts_of, texts_of

ROOT: Final = Path(__file__).resolve().parents[2]
GLOSSARY: Final = ROOT / "docs" / "glossary.md"
GENERATED: Final = re.compile(r"docs/configuration\.md")
PENDING: Final = ()
"""Directories whose comments have not been rewritten yet."""

# A description names its subject, or begins with what is done to it.
OPENER: Final = re.compile(
    r"(What|Whether|How|Whoever|Whatever|Who|Whom|Whose|Which|Where|Why|That|Those|These|It|Its|They|There|Nothing|So"
    r"|Of|As|From|By|With|At|For|On|In|To|Until|Not|When|If|While|Because|But|And|Also|Then)\b(?!-)"
)
# Names in Python code that others have given or rely on.
KEPT: Final = frozenset(
    {
        "Pulse",  # command of the metadata service, in stored journals
        "catalogue_version",  # file in the data directories of nodes
        "is_pulse_due",  # as for `Pulse`
        "pulse",  # as above
        "pulse_due_at",  # as above
        "pulses",  # as above
        "tell",  # method of files
    }
)
CONFIGURATION: Final = frozenset({".toml", ".yaml", ".yml", ".sh", ".bash", ".html", ".Dockerfile", ""})
"""Suffixes of files whose names and comments are read together; scripts and the Makefile have none."""
CODE: Final = re.compile(r"```.*?```|`[^`]*`|https?://\S+|\]\([^)]*\)|^ +\*{0,2}\w+:(?= )", re.DOTALL | re.MULTILINE)


@cache
def retired() -> re.Pattern[str]:
    """Return the retired words: the last column of the glossary's table, each with its plural."""
    words = [
        word.strip()
        for row in GLOSSARY.read_text(encoding="utf-8").splitlines()
        if row.startswith("| ") and not row.startswith("| term ") and len(cells := row.strip("| ").split(" | ")) == 3
        for word in cells[2].split(",")
        if word.strip(" -")
    ]
    return re.compile(rf"\b({'|'.join(map(re.escape, words))})s?\b", re.IGNORECASE)


def sources() -> Iterator[Path]:
    """Return every file that is tracked, was written by hand, and has comments."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        if not GENERATED.fullmatch(name) and not name.startswith(PENDING) and (ROOT / name).is_file():
            yield Path(name)


@cache
def comments() -> list[tuple[Path, Comment]]:
    """Return all comments of all sources."""
    return [(path, comment) for path in sources() for comment in comments_of(ROOT / path)]


@cache
def suspects() -> list[Path]:
    """Return the files of code that contain the letters of a retired word; reading the others in detail takes long."""
    letters = re.compile(retired().pattern.replace(r"\b", ""), re.IGNORECASE)
    return [path for path in sources() if path.suffix in SUFFIXES and letters.search((ROOT / path).read_text("utf-8"))]


def is_retired(path: Path, name: str) -> bool:
    """Return whether a name in this file has a retired word, and is not one that has to be kept."""
    is_kept = name in KEPT and path.suffix in {".py", ".pyi"}
    return not is_kept and retired().search(parts_of(name)) is not None


def is_python_test(path: Path) -> bool:
    """Return whether the labels in this file are data, such as names of users."""
    return path.suffix == ".py" and "tests" in path.parts


def words_of(text: str) -> list[str]:
    """Return the retired words in prose; code in backticks and addresses are left out."""
    return [match[0] for match in retired().finditer(CODE.sub("", text))]


def test_descriptions_begin_with_a_verb_or_a_noun() -> None:
    found = [
        f"{path}:{comment.line}: {match[0]}"
        for path, comment in comments()
        if comment.is_documentation and (match := OPENER.match(comment.text))
    ]
    assert not found


def test_comments_have_no_retired_words() -> None:
    found = [f"{path}:{comment.line}: {words}" for path, comment in comments() if (words := words_of(comment.text))]
    assert not found


def test_documents_have_no_retired_words() -> None:
    found = [
        f"{path}: {words}"
        for path in sources()
        if path.suffix == ".md" and path != GLOSSARY.relative_to(ROOT)
        if (words := words_of((ROOT / path).read_text(encoding="utf-8")))
    ]
    assert not found


def test_configuration_has_no_retired_words() -> None:
    found = [
        f"{path}: {words}"
        for path in sources()
        if path.suffix in CONFIGURATION
        if (words := words_of((ROOT / path).read_text(encoding="utf-8").replace("_", " ")))
    ]
    assert not found


def test_file_names_have_no_retired_words() -> None:
    assert [path for path in sources() if retired().search(re.sub(r"[\W_]", " ", str(path)))] == []


def test_identifiers_have_no_retired_words() -> None:
    found = [
        f"{path}:{name.line}: {name.text}"
        for path in suspects()
        for name in identifiers_of(ROOT / path)
        if is_retired(path, name.text)
    ]
    assert not found


def test_labels_have_no_retired_words() -> None:
    found = [
        f"{path}:{label.line}: {label.text}"
        for path in suspects()
        if not is_python_test(path)
        for label in labels_of(ROOT / path)
        if is_retired(path, label.text)
    ]
    assert not found


def test_texts_have_no_retired_words() -> None:
    found = [
        f"{path}:{text.line}: {words}"
        for path in suspects()
        if path != Path("tests/architecture/test_language.py")
        for text in texts_of(ROOT / path)
        if (words := words_of(text.text))
    ]
    assert not found


@pytest.mark.parametrize(
    ("identifier", "words"),
    [("_DATA_FOLDER", "DATA FOLDER"), ("DataFolderInUse", "Data Folder In Use"), ("told_at", "told at")],
)
def test_words_of_identifiers_are_found(identifier: str, words: str) -> None:
    assert parts_of(identifier) == words
    assert retired().search(words)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = '# no comment'  # a remark\n", [("a remark", False)]),
        ("# two\n# lines\n\n# another\n", [("two\nlines", False), ("another", False)]),
        ('"""Module."""\nX = 1\n"""Constant."""\n', [("Module.", True), ("Constant.", True)]),
    ],
)
def test_comments_of_python_are_found(tmp_path: Path, source: str, expected: list[tuple[str, bool]]) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert [(comment.text, comment.is_documentation) for comment in comments_of(path)] == expected


def test_comments_of_rust_are_found(tmp_path: Path) -> None:
    path = tmp_path / "module.rs"
    path.write_text("//! Module.\n\n/// Item,\n/// described.\n// A remark.\nfn item() {}\n")
    found = [(comment.line, comment.text, comment.is_documentation) for comment in comments_of(path)]
    assert found == [(1, "Module.", True), (3, "Item,\ndescribed.", True), (5, "A remark.", False)]


def test_retired_words_are_found_outside_of_code() -> None:
    assert words_of("Open the door for nobody; `door` is code.") == ["door", "nobody"]


def test_tokens_of_rust_are_found(tmp_path: Path) -> None:
    path = tmp_path / "module.rs"
    path.write_text(
        'fn f<\'a>(r#in: &\'a str) -> char { // "no text"\n    log("it is \\"// no comment", r#"raw"#); \'"\' }\n'
    )
    assert [name.text for name in identifiers_of(path)] == ["fn", "f", "a", "r", "in", "a", "str", "char", "log"]
    assert [text.text for text in texts_of(path)] == [r'"it is \"// no comment"']
    assert [label.text for label in labels_of(path)] == ['r#"raw"#']


def test_tokens_of_typescript_are_found(tmp_path: Path) -> None:
    path = tmp_path / "module.tsx"
    path.write_text(
        "/**\n * Page, in\n * two lines. */\nconst page = <p title={`of ${name}`}>It's here</p>; // A remark.\n"
    )
    found = [(comment.line, comment.text, comment.is_documentation) for comment in comments_of(path)]
    assert found == [(1, "Page, in\ntwo lines.", True), (4, "A remark.", False)]
    assert [text.text for text in texts_of(path)] == ["`of ${name}`"]
    assert {"page", "title", "here"} <= {name.text for name in identifiers_of(path)}
