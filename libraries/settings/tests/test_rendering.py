"""Rendering of a configuration."""

import tomllib
from typing import Annotated, Literal

from hypothesis import given
from hypothesis import strategies as st

from headrace_settings import (
    Address,
    Between,
    Duration,
    OptionOrigin,
    Secret,
    Section,
    SharedBy,
    Size,
    json_schema,
    listed,
    load,
    to_comparison,
    to_markdown,
    to_toml,
)


class Inner(Section):
    name: str = "a"
    """The name | of it."""
    size: Size = Size.parse("1 MiB")
    password: Secret | None = None
    """Password, never displayed."""
    hosts: tuple[str, ...] = ("x", "y")
    limit: int | None = None


class Outer(Section):
    inner: Inner = Inner()
    mode: Literal["a", "b"] = "a"
    """Mode of operation."""
    ratio: float = 0.5
    on: bool = True


@given(
    st.builds(
        Outer,
        inner=st.builds(
            Inner,
            name=st.text(),
            size=st.integers(0, 2**64 - 2).map(Size),
            hosts=st.lists(st.text()).map(tuple),
            limit=st.none() | st.integers(-(2**63), 2**63 - 1),
        ),
        ratio=st.floats(allow_nan=False, allow_infinity=False),
        on=st.booleans(),
    )
)
def test_what_is_written_loads_back(config: Outer) -> None:
    assert Outer.model_validate(tomllib.loads(to_toml(config))) == config


@given(st.text(alphabet=st.characters(categories=["L", "N"]), min_size=12))
def test_secrets_are_left_out(password: str) -> None:
    text = to_toml(Outer(inner=Inner(password=Secret(password))))
    assert password not in text
    assert "# password is set, but not shown" in text
    tomllib.loads(text)


def test_origins_are_comments() -> None:
    loaded = load(Outer, environment={"HEADRACE_INNER_NAME": "b"})
    text = to_toml(loaded.config, origins=loaded.origins)
    assert 'name = "b"  # environment HEADRACE_INNER_NAME' in text
    assert 'mode = "a"\n' in text


def test_the_reference_names_everything() -> None:
    text = to_markdown(Outer)
    assert "## `inner`" in text
    assert "| `inner.size` | `HEADRACE_INNER_SIZE` | `1 MiB` |" in text
    assert "The name \\| of it." in text
    assert "`HEADRACE_INNER_PASSWORD` (also `…_FILE`)" in text
    assert "one of a, b" in text


def test_a_comparison_has_a_column_for_each_process() -> None:
    class Other(Section):
        """`inner` of another process."""

        size: Size = Size(1)
        """A different size."""
        hosts: tuple[str, ...] = ("a",)
        """Only here."""

    class Process(Section):
        inner: Other = Other()
        mode: Literal["a", "b"] = "b"
        """Mode of operation."""

    text = to_comparison({"first": (Outer, "HEADRACE"), "second": (Process, "OTHER")})
    assert text.count("## `inner`") == 1
    assert "| setting | environment | first | second | meaning |\n| --- | --- | --- | --- | --- |" in text
    assert "| `inner.name` | `HEADRACE_INNER_NAME` | `a` |  | The name \\| of it. |" in text
    # Another meaning is another row below, whose variable is that of the process that has it.
    rows = [line for line in text.splitlines() if line.startswith("| `inner.size` |")]
    assert [row.partition(" *Allowed:")[0] for row in rows] == [
        "| `inner.size` | `HEADRACE_INNER_SIZE` | `1 MiB` |  | ",
        "| `inner.size` | `OTHER_INNER_SIZE` |  | `1 B` | A different size.",
    ]
    assert "| `mode` | `HEADRACE_MODE` | `a` | `b` | Mode of operation." in text


def test_the_reference_says_who_shares_a_limit() -> None:
    class Limited(Section):
        """`limited`."""

        max_waits: Annotated[int, Between(0, 5), SharedBy.USERS] = 1
        """Maximum number of waits."""

    text = to_markdown(Limited)
    assert (
        "waits. *Allowed: a whole number, from 0 to 5.* *Shared by: all users, of whom one has at most half.*" in text
    )


def test_the_schema_is_json_schema() -> None:
    schema = json_schema(Outer)
    assert schema["properties"]["mode"]["enum"] == ["a", "b"]
    assert schema["$defs"]["Inner"]["properties"]["name"]["description"] == "The name | of it."


def test_types_of_other_libraries_stay_usable() -> None:
    class Plain(Section):
        address: Address = Address.parse("127.0.0.1:0")
        wait: Duration = Duration(0)

    assert Plain.model_validate({"address": "[::1]:5", "wait": 0}).model_dump(mode="json") == {
        "address": "[::1]:5",
        "wait": "0 s",
    }


def test_a_list_has_every_setting_and_no_secret():
    config = Outer(inner=Inner(password=Secret("hidden"), limit=3))
    shown = {setting.name: setting for setting in listed(config, origins={("mode",): OptionOrigin("--mode")})}
    assert list(shown) == [
        "inner.name",
        "inner.size",
        "inner.password",
        "inner.hosts",
        "inner.limit",
        "mode",
        "ratio",
        "on",
    ]
    assert [setting.value for setting in shown.values()] == [
        '"a"',
        '"1 MiB"',
        None,
        '["x", "y"]',
        "3",
        '"a"',
        "0.5",
        "true",
    ]
    assert (shown["inner.password"].is_set, shown["inner.password"].is_secret) == (True, True)
    assert not listed(Outer())[2].is_set
    assert (shown["mode"].origin, shown["mode"].is_default) == ("option --mode", False)
    assert (shown["on"].origin, shown["on"].is_default) == ("default", True)
    assert "hidden" not in repr(shown)
