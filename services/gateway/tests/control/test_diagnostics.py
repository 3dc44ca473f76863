"""The diagnostics archive: its entries are those of section 4.1 of the binary protocol, and it contains no secret."""

import io
import os
import sys
import zipfile

import pytest

from headrace_gateway.control import diagnostics as module
from headrace_proto.control.v1 import GetDiagnostics
from headrace_proto.errors import Status

ALL = ["filesystem_overview.txt", "process_list.txt", "resource_usage.txt", "server_logs.txt", "server_config.txt"]


@pytest.fixture
def archive(ask):
    async def send(compression, *kinds):
        return await ask(3, get_diagnostics=GetDiagnostics(compression=compression, kinds=kinds))

    return send


def opened(reply):
    assert reply.status == 0
    return zipfile.ZipFile(io.BytesIO(reply.diagnostics))


async def test_every_kind_is_a_text_file(archive, tmp_path):
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams" / "some.log").write_bytes(b"12345")
    entries = opened(await archive(2, 1, 2, 3, 4, 5, 6))
    assert entries.namelist() == [*ALL[:3], "test.txt", *ALL[3:]]
    text = {name: entries.read(name).decode() for name in entries.namelist()}
    assert "5, streams/some.log" in text["filesystem_overview.txt"]
    assert f"{os.getpid()}, " in text["process_list.txt"]
    assert "total_memory_bytes: " in text["resource_usage.txt"]
    assert text["server_config.txt"] == "[tcp]\nenabled = true\n"
    assert "standard output" in text["server_logs.txt"]


async def test_all_is_everything_but_the_test(archive):
    assert opened(await archive(1, 100)).namelist() == ALL


async def test_a_kind_that_is_named_twice_is_there_once(archive):
    assert opened(await archive(2, 4, 6, 4)).namelist() == ["test.txt", "server_config.txt"]
    assert opened(await archive(2)).namelist() == []


@pytest.mark.parametrize(
    ("code", "method"),
    [(1, zipfile.ZIP_STORED), (2, zipfile.ZIP_DEFLATED), (3, zipfile.ZIP_BZIP2), (5, zipfile.ZIP_LZMA)],
)
async def test_compressions(archive, code, method):
    entries = opened(await archive(code, 4))
    assert entries.infolist()[0].compress_type == method
    assert entries.testzip() is None


async def test_what_cannot_be_compressed_here_is_refused(archive):
    assert (await archive(6, 4)).status == Status.FEATURE_UNAVAILABLE
    if sys.version_info < (3, 14):
        assert (await archive(4, 4)).status == Status.FEATURE_UNAVAILABLE


@pytest.mark.parametrize(
    ("compression", "kinds"), [(0, [4]), (7, [4]), (2, [0]), (2, [7]), (2, [100, 4]), (2, [100, 100])]
)
async def test_unknown_codes_are_refused(archive, compression, kinds):
    assert (await archive(compression, *kinds)).status == Status.INVALID_COMMAND


async def test_of_the_logs_the_newest_are_kept(archive, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_LOG_BYTES_MAX", 20)
    logs = tmp_path / "logs"
    logs.mkdir()
    for age, (name, text) in enumerate([("c.log", "newest"), ("b.log", "older, and its end"), ("a.log", "oldest")]):
        (logs / name).write_text(text)
        os.utime(logs / name, (1_000_000 - age, 1_000_000 - age))
    text = opened(await archive(2, 5)).read("server_logs.txt").decode()
    assert text == "==> b.log\nr, and its end\n==> c.log\nnewest\n"


async def test_a_device_that_cannot_be_read_is_reported(archive, monkeypatch):
    def broken(self):
        raise OSError("broken")

    monkeypatch.setattr(module.psutil, "process_iter", broken)
    assert (await archive(2, 2)).status == Status.SNAPSHOT_FILE_COMPLETION_FAILED
