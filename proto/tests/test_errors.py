"""The Python side of the registry of status codes."""

import pytest

from headrace_proto.errors import REGISTRY, Origin, Status, StatusInfo, find

GENERATOR = "generate_errors"


def entry(code="1", name="Error", origin="wire"):
    return f'{{ code = {code}, name = "{name}", origin = "{origin}", retryable = false, description = "" }}'


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (['{ code = 1, name = "Error" }'], "has the fields"),
        ([entry(code='"1"')], "has the fields"),
        ([entry(code="0")], "ascend"),
        ([entry(name="some_error")], "CamelCase"),
        ([entry(origin="moon")], "unknown origin"),
        ([entry(), entry(name="Other")], "ascend"),
        ([entry(), entry(code="2")], "used once"),
    ],
)
def test_a_faulty_registry_is_refused(generator, tmp_path, entries, problem):
    path = tmp_path / "errors.toml"
    path.write_text(f"status = [{', '.join(entries)}]")
    with pytest.raises(ValueError, match=problem):
        generator.read_registry(path)


def test_every_code_is_registered():
    # Codes from 20000 on are specific to Headrace.
    assert sum(code < 20_000 for code in REGISTRY) == 223
    assert [*REGISTRY] == sorted(REGISTRY)
    assert {Status.OK, *REGISTRY} == {*Status}
    assert len({info.name for info in REGISTRY.values()}) == len(REGISTRY)


def test_codes_are_found_by_number():
    assert find(3) == StatusInfo(
        status=Status.INVALID_COMMAND,
        name="InvalidCommand",
        origin=Origin.WIRE,
        retryable=False,
        description=REGISTRY[Status.INVALID_COMMAND].description,
    )
    assert find(0) is None
    assert find(17) is None
    assert REGISTRY[Status.DISCONNECTED].retryable
    assert not REGISTRY[Status.UNAUTHORIZED].retryable
