"""Access to the console's files."""

import gzip

import pytest
from aiohttp.test_utils import make_mocked_request

from headrace_gateway.console import Console


@pytest.fixture
def console(tmp_path):
    (tmp_path / "console").mkdir()
    (tmp_path / "index.html").write_text("<p>index</p>")
    (tmp_path / "console" / "index-12345678.js").write_text("let a = 1;\n" * 100)
    return Console.load(tmp_path)


def asked(path, **headers):
    return make_mocked_request("GET", path, headers={name.replace("_", "-"): text for name, text in headers.items()})


def test_only_browsers_get_the_page(console):
    assert console.paths == {"/console/index-12345678.js"}
    assert console.page(asked("/", Accept="text/html,*/*")).body == b"<p>index</p>"
    assert console.page(asked("/", Accept="*/*")) is None
    assert console.page(asked("/")) is None
    assert Console.absent().page(asked("/", Accept="text/html")) is None
    assert not Console.absent().paths


async def test_files_are_compressed_for_who_can_read_that(console):
    path = "/console/index-12345678.js"
    plain = await console.serve(asked(path))
    packed = await console.serve(asked(path, Accept_Encoding="br, gzip"))
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert packed.headers["Vary"] == "Accept, Accept-Encoding"
    unchanged = await console.serve(asked(path, If_None_Match=f'"{plain.etag.value}"'))
    assert (unchanged.status, unchanged.body) == (304, None)
    assert unchanged.headers["Content-Security-Policy"]


def test_a_file_of_an_unknown_type_is_no_page(tmp_path):
    (tmp_path / "a.exe").write_bytes(b"")
    with pytest.raises(KeyError):
        Console.load(tmp_path)


def test_it_may_not_have_been_built(tmp_path):
    assert not Console.load(tmp_path / "missing").paths
