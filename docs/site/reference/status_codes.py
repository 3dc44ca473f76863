"""Reference of status codes, from their registry."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from tables import cell, code, prose

REGISTRY: Final = Path(__file__).resolve().parents[3] / "proto" / "errors.toml"
INTRODUCTION: Final = """\
# Status codes

Made from `proto/errors.toml`. A response of the binary protocol begins with such a code, 0 for
success. HTTP has it as `code` or `id` of a [problem document](../http.md#handle-errors), gRPC as `headrace-status` in
the trailing metadata. A code is never reused for another meaning; codes that are not listed are undefined.

| origin | who reports it |
| --- | --- |
| `wire` | a server, in normal operation |
| `wire-internal` | a server, if its disk or another part of it fails |
| `startup` | a server that cannot start |
| `http` | the HTTP interface only |
| `client` | client libraries only |
| `never` | no program: the entry reserves the number |

*Retry* means that the unchanged request may succeed when it is repeated, after connecting and logging in again where
needed.

| code | name | origin | retry | meaning |
| --- | --- | --- | --- | --- |
"""


def render() -> str:
    """Return the page."""
    entries = tomllib.loads(REGISTRY.read_text(encoding="utf-8"))["status"]
    return INTRODUCTION + "".join(
        f"| {entry['code']} | {code(entry['name'])} | {code(entry['origin'])} | "
        f"{'yes' if entry['retryable'] else ''} | {cell(prose(entry['description']))} |\n"
        for entry in entries
    )
