"""Delivery of the console by the HTTP listener."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from tests.server_process import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
HTML = "text/html,application/xhtml+xml,*/*;q=0.8"


def get(server: ServerProcess, path: str, **headers: str) -> tuple[int, Message, bytes]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(server.http_url + path, headers=sent)) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, answer.headers, answer.read()


def assets(server: ServerProcess) -> list[str]:
    return re.findall(r'(?:src|href)="(/[^"]+)"', get(server, "/", Accept=HTML)[2].decode())


def test_browsers_get_the_console_and_all_others_what_they_know(shared_server: ServerProcess) -> None:
    status, headers, body = get(shared_server, "/", Accept=HTML)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "Accept" in headers["Vary"]
    assert b'<div id="app">' in body
    assert get(shared_server, "/")[2] == b"Iggy API"
    assert get(shared_server, "/", Accept="*/*")[2] == b"Iggy API"


def test_pages_may_run_nothing_but_their_own_files(shared_server: ServerProcess) -> None:
    for path in ("/", *assets(shared_server)):
        _, headers, body = get(shared_server, path, Accept=HTML)
        policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        if path == "/":
            assert not re.search(rb"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=|javascript:", body)


def test_files_with_a_hash_in_their_name_are_kept_for_ever(shared_server: ServerProcess) -> None:
    _, headers, _ = get(shared_server, "/", Accept=HTML)
    assert headers["Cache-Control"] == "no-cache"
    assert get(shared_server, "/", Accept=HTML, If_None_Match=headers["ETag"])[0] == 304
    paths = assets(shared_server)
    assert {path.rpartition(".")[2] for path in paths} == {"js", "css", "svg"}
    for path in paths:
        assert re.search(r"-[\w-]{8}\.\w+$", path), path
        status, headers, body = get(shared_server, path)
        assert (status, headers["Cache-Control"]) == (200, "public, max-age=31536000, immutable")
        _, headers, compressed = get(shared_server, path, Accept_Encoding="gzip")
        if headers["Content-Encoding"] == "gzip":
            assert gzip.decompress(compressed) == body


@pytest.mark.parametrize(
    "path", ["/console/", "/console/../index.html", "/console/missing.js", "/console/%2e%2e/pages.py", "/index.html"]
)
def test_nothing_else_is_given_away(shared_server: ServerProcess, path: str) -> None:
    assert get(shared_server, path)[0] in {401, 404}


def test_the_wheel_holds_it(tmp_path: Path) -> None:
    command = [ROOT / ".cache/uv/bin/uv", "build", "--quiet", "--wheel", "--python", sys.executable]
    subprocess.run([*command, "--package", "headrace", "--out-dir", tmp_path], check=True, cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "headrace_gateway/console/static/index.html" in names
    kinds = {Path(name).suffix for name in names if name.startswith("headrace_gateway/console/static/console/")}
    assert kinds == {".js", ".css", ".svg", ".md"}
