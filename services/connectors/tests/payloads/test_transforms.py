"""CON-41: transforms of fields, masks, lists and functions of the user."""

from __future__ import annotations

import copy
import functools
import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.property_runs import bounded

from headrace_connectors.contract import InvalidRecord, Record, Transform
from headrace_connectors.plugins.discovery import Plugins
from headrace_connectors.routing.paths import MISSING, value_at
from headrace_settings import SettingsError

KEY = "0123456789abcdef"
DEEP = functools.reduce(lambda value, _: [value], range(2000), [])
SOURCE = '[sources.a]\nplugin = "random"\nstream = "s"\ntopic = "t"\n'
NAMES = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)


def transform(name: str, **settings) -> Transform:
    kind = Plugins().load("transforms", name)
    return kind(kind.settings_type.model_validate(settings))


def applied(name: str, payload, **settings):
    """Payload after a transform; what it got is unchanged, and everything else of the record, too."""
    record = Record(payload, id=7, headers={"h": 1}, table="t")
    before = copy.deepcopy(payload)
    made = transform(name, **settings).apply(record)
    assert record.payload == before
    assert (made.id, made.headers, made.table) == (7, {"h": 1}, "t")
    return made.payload


@pytest.mark.parametrize(
    ("name", "settings", "payload", "expected"),
    [
        ("add_fields", {"fields": {"a.b": 1, "c": [2]}}, {"a": {"x": 0}}, {"a": {"x": 0, "b": 1}, "c": [2]}),
        ("add_fields", {"fields": {"a": 1}}, {"a": 0}, {"a": 1}),
        ("add_fields", {"fields": {"a": 1, "b": 1}, "overwrite": False}, {"a": 0}, {"a": 0, "b": 1}),
        ("add_fields", {"copies": {"x.y": "a.b", "z": "missing"}}, {"a": {"b": 3}}, {"a": {"b": 3}, "x": {"y": 3}}),
        ("add_fields", {"fields": {"a": 1}}, b'{"b": 2}', {"a": 1, "b": 2}),
        ("delete_fields", {"fields": ["a.b", "c", "x.y"]}, {"a": {"b": 1, "d": 2}, "c": 3}, {"a": {"d": 2}}),
        (
            "filter_fields",
            {"fields": ["a.b", "c", "x"]},
            {"a": {"b": 1, "d": 2}, "c": 3, "e": 4},
            {"c": 3, "a": {"b": 1}},
        ),
        ("filter_fields", {"fields": ["a.b", "a"]}, {"a": {"b": 1, "d": 2}}, {"a": {"b": 1, "d": 2}}),
        (
            "rename_fields",
            {"fields": {"a.b": "x.y", "c": "d"}},
            {"a": {"b": 1}, "c": 2, "d": 3},
            {"a": {}, "x": {"y": 1}, "d": 2},
        ),
        ("rename_fields", {"fields": {"missing": "a"}}, {"a": 1}, {"a": 1}),
        ("mask_fields", {"redact": ["a"], "text": "-"}, {"a": {"b": 1}, "c": 2}, {"a": "-", "c": 2}),
        (
            "mask_fields",
            {"keep_last": {"card": 4, "pin": 4, "n": 1}},
            {"card": "1234567890", "pin": "1234", "n": 42},
            {"card": "******7890", "pin": "****", "n": "*2"},
        ),
        (
            "mask_fields",
            {"redact": ["a.b", "c.d", "e"]},
            {"a": None, "c": 3, "e": None},
            {"a": None, "c": 3, "e": None},
        ),
    ],
)
def test_examples(name, settings, payload, expected):
    assert applied(name, payload, **settings) == expected


def test_a_hash_is_the_same_for_equal_values_and_needs_the_key():
    made = applied("mask_fields", {"a": "anna", "b": {"x": 1, "y": 2}}, hash=["a", "b"], key=KEY)
    assert made["a"] == hmac.new(KEY.encode(), b"anna", hashlib.sha256).hexdigest()
    assert made["b"] == applied("mask_fields", {"b": {"y": 2, "x": 1}}, hash=["b"], key=KEY)["b"]
    assert made["a"] != applied("mask_fields", {"a": "anna"}, hash=["a"], key=KEY[::-1])["a"]


@pytest.mark.parametrize(
    ("name", "settings", "payload", "message"),
    [
        ("add_fields", {"fields": {"a.b": 1}}, {"a": 3}, "a.b cannot be set: it is a int"),
        ("delete_fields", {"fields": ["a"]}, [1], "the payload is a list, and has no fields"),
        ("rename_fields", {"fields": {"a": "b.c"}}, {"a": 1, "b": 2}, "b.c cannot be set"),
        ("filter_fields", {"fields": ["a"]}, b"{", "the payload is not JSON"),
        ("filter_fields", {"fields": ["a"]}, b'"\xff"', "the payload is not JSON"),
        ("filter_fields", {"fields": ["a"]}, b"[" * 2000, "the payload is not JSON"),
        ("mask_fields", {"hash": ["a"], "key": KEY}, {"a": DEEP}, "has no form in JSON"),
        ("mask_fields", {"redact": ["a.b"]}, {"a": [{"b": "secret"}]}, "there is a list on the path"),
        ("split", {}, {"a": 1}, "the payload is a dict, not a list"),
        ("split", {"field": "a.b"}, {"a": {}}, "a.b is missing, not a list"),
    ],
)
def test_records_that_cannot_be_transformed(name, settings, payload, message):
    with pytest.raises(InvalidRecord, match=message):
        transform(name, **settings).apply(Record(payload))


def test_a_list_becomes_a_record_for_each_element():
    made = transform("split", field="rows").apply(Record({"rows": [{"n": 1}, {"n": 2}]}, id=7, table="t"))
    assert [one.payload["n"] for one in made] == [1, 2]
    assert len({one.id for one in made} - {0, 7}) == 2
    assert [one.id for one in made] == [one.id for one in transform("split").apply(Record([1, 2], id=7))]
    assert transform("split").apply(Record(b"[]")) == []


@bounded(25)
@given(OBJECTS, PATHS)
def test_a_deleted_field_is_gone_and_others_are_there(payload, path):
    name = ".".join(path)
    made = applied("delete_fields", payload, fields=[name])
    assert value_at(made, path) is MISSING
    if value_at(payload, path) is MISSING:
        assert made == payload
    else:
        assert applied("add_fields", made, copies={}, fields={name: value_at(payload, path)}) == payload


@bounded(25)
@given(OBJECTS, st.sets(PATHS, min_size=1, max_size=3))
def test_kept_fields_are_as_they_were_and_there_are_no_others(payload, paths):
    made = applied("filter_fields", payload, fields=[".".join(path) for path in paths])
    for path in paths:
        assert value_at(made, path) == value_at(payload, path)
    assert set(made) <= {path[0] for path in paths}


@bounded(25)
@given(OBJECTS, PATHS)
def test_a_field_that_is_renamed_twice_is_back(payload, path):
    name = ".".join(path)
    made = applied("rename_fields", payload, fields={name: "new"})
    assert value_at(made, ("new",)) == value_at(payload, path)
    assert applied("rename_fields", made, fields={"new": name}) == payload


@bounded(25)
@given(st.dictionaries(NAMES, VALUES, min_size=1), st.text("xyz", min_size=9))
def test_a_masked_value_is_not_in_the_record(payload, secret):
    payload["secret"] = {"of": secret}
    for settings in ({"redact": ["secret.of"]}, {"hash": ["secret"], "key": KEY}, {"keep_last": {"secret.of": 3}}):
        made = applied("mask_fields", payload, **settings)
        assert secret not in json.dumps(made)
        assert {**made, "secret": None} == {**payload, "secret": None}


# ---- functions of the user


@pytest.fixture
def module(tmp_path):
    """A directory with a module that is not installed."""
    name = f"functions_{tmp_path.name.replace('-', '_')}"
    text = "def plus(record, by=1):\n    record.payload += by\n    return record\n\nasync def later(r): ...\n\nn = 3\n"
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "broken.py").write_text("1 / 0\n", encoding="utf-8")
    return name


def test_a_function_is_called_with_each_record(module, tmp_path):
    plus = transform("python", function=f"{module}:plus", directory=str(tmp_path), arguments={"by": 2})
    assert plus.apply(Record(1)).payload == 3
    with pytest.raises(InvalidRecord, match=f"{module}:plus failed: TypeError"):
        plus.apply(Record("a"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('function = "a.b"', 'is not the name of a function: write "module:name"'),
        ('function = "no_such_module:f"', "there is no module no_such_module: install it, or set directory"),
        ('function = "MODULE:f"', "has no f: correct the name after the colon"),
        ('function = "MODULE:n"', "is a int, not a function"),
        ('function = "MODULE:later"', "is asynchronous or a generator"),
        ('function = "MODULE:plus"\narguments = { x = 1 }', "cannot be called with a record and these arguments"),
        ('function = "broken:f"', "broken cannot be imported: ZeroDivisionError"),
        ('function = "MODULE:plus"\ndirectory = "/missing"', "directory = '/missing' does not exist"),
    ],
)
def test_mistakes_are_found_when_the_file_is_read(parse, module, tmp_path, text, message):
    directory = "" if "directory" in text else f'\ndirectory = "{tmp_path}"'
    with pytest.raises(SettingsError) as caught:
        parse(f"{SOURCE}[sources.a.transforms.python]\n{text.replace('MODULE', module)}{directory}\n")
    assert message in str(caught.value)
    assert "sources.a.transforms.python" in str(caught.value)
    assert "line 5" in str(caught.value)


def test_what_a_function_returns_goes_on(tmp_path):
    text = (
        "def any(record):\n    values = {'drop': None, 'twice': [record, record], 'wrong': 'text'}\n"
        "    return values[record.payload]\n"
    )
    (tmp_path / "returned_values.py").write_text(text, encoding="utf-8")
    given_back = transform("python", function="returned_values:any", directory=str(tmp_path))
    assert given_back.apply(Record("drop")) is None
    assert len(given_back.apply(Record("twice"))) == 2
    with pytest.raises(InvalidRecord, match="returned a str, not a record, a list of records or None"):
        given_back.apply(Record("wrong"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("add_fields", "", "adds nothing: set fields or copies"),
        ("add_fields", 'fields = { "a..b" = 1 }', "is not a path"),
        ("add_fields", 'fields = { a = 1, "a.b" = 1 }', "a.b is within a"),
        ("add_fields", 'fields = { a = 1 }\ncopies = { a = "b" }', "a is in fields and in copies"),
        ("delete_fields", "", "fields: is not set and has no default"),
        ("delete_fields", "fields = []", "transforms.delete_fields.fields"),
        ("delete_fields", 'field = ["a"]', "unknown setting"),
        ("rename_fields", 'fields = { a = "c", b = "c" }', "two fields get the name c"),
        ("rename_fields", 'fields = { a = "a.b" }', "a cannot become a.b"),
        ("mask_fields", "", "hides nothing"),
        ("mask_fields", 'hash = ["a"]', "hash needs key (or key_file)"),
        ("mask_fields", 'hash = ["a"]\nkey = "short"', "less than 16 characters"),
        ("mask_fields", f'redact = ["a"]\nkey = "{KEY}"', "key has no effect without hash"),
        ("mask_fields", 'redact = ["a"]\nkeep_last = { a = 4 }', "a is masked twice"),
        ("mask_fields", "keep_last = { a = 0 }", "0 is less than 1"),
    ],
)
def test_settings_are_checked(parse, name, text, message):
    with pytest.raises(SettingsError) as caught:
        parse(f"{SOURCE}[sources.a.transforms.{name}]\n{text}\n")
    assert message in str(caught.value)
    assert KEY not in str(caught.value)
    assert f"sources.a.transforms.{name}" in str(caught.value)


def test_the_order_is_that_of_the_file(parse):
    pipeline = parse(
        SOURCE
        + '[sources.a.transforms.first]\nplugin = "rename_fields"\nfields = { a = "b" }\n'
        + '[sources.a.transforms.second]\nplugin = "rename_fields"\nfields = { b = "c" }\n'
        + f'[sources.a.transforms.mask_fields]\nhash = ["c"]\nkey = "{KEY}"\n'
    )
    record = Record({"a": 1})
    for one in pipeline.sources["a"].transforms:
        record = one.create().apply(record)
    assert len(record.payload["c"]) == 64
    assert [one.name for one in pipeline.sources["a"].transforms] == ["first", "second", "mask_fields"]


def test_a_secret_key_is_not_shown():
    kind = Plugins().load("transforms", "mask_fields").settings_type
    assert KEY not in repr(kind(hash=["a"], key=KEY))
    with pytest.raises(ValidationError):
        kind(hash=["a"], key="short")
