"""Line numbers of keys, in any context."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from headrace_settings.loading.toml_lines import lines_of_keys

DOCUMENT = '''# a comment = "with = signs"
top = 1

[a]
"quoted key" = "x = [1, # no comment"   # a comment
list = [
    "]", # ]
    'b',
]
b.c = """
[not.a.table]
d = 1
"""

[ a . e ]
f = { g = 1, h = "}" }
[[rows]]
i = \'\'\'
[x]\'\'\'
'''


def test_lines() -> None:
    tomllib.loads(DOCUMENT)
    assert lines_of_keys(DOCUMENT) == {
        ("top",): 2,
        ("a",): 4,
        ("a", "quoted key"): 5,
        ("a", "list"): 6,
        ("a", "b"): 10,
        ("a", "b", "c"): 10,
        ("a", "e"): 15,
        ("a", "e", "f"): 16,
        ("rows",): 17,
        ("rows", "i"): 18,
    }


VALUES = st.sampled_from(
    [
        "1",
        '"a"',
        "'#'",
        '"\\""',
        "[\n1,\n2\n]",
        '"""\n[x]\ny = 1\n"""',
        "'''\n'\n'''",
        "{ p = 1 }",
        "true # c",
    ]
)


@given(st.lists(VALUES, max_size=12), st.lists(st.sampled_from(["", "\n", "# x = 1\n", "  \n"]), min_size=12))
def test_every_key_of_a_generated_document_is_found(values: list[str], gaps: list[str]) -> None:
    text, expected = "", {}
    for index, (value, gap) in enumerate(zip(values, gaps, strict=False)):
        text += gap
        expected[f"k{index}",] = text.count("\n") + 1
        text += f"k{index} = {value}\n"
    tomllib.loads(text)
    assert lines_of_keys(text) == expected


@given(st.text(alphabet="[]{}=\"'\n#.a1 \\", max_size=60))
def test_any_text_ends(text: str) -> None:
    lines_of_keys(text)
