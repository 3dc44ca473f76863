"""The environment of a process of one connector: what programs need, and no secrets of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

PASSED: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR", "XDG_*",
    "PYTHON*", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "MALLOC_*", "COVERAGE_*", "OPENSSL_CONF",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip
"""Names of variables that every such process has; `*` at the end stands for any rest."""


def environment_of(environment: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return the part of an environment that a process of a connector has.

    Args:
        environment: That of the process of the connectors.
        names: Further names of the connector, as in `PASSED`.
    """
    patterns = (*PASSED, *names)
    whole = {pattern for pattern in patterns if not pattern.endswith("*")}
    beginnings = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
    return {name: value for name, value in environment.items() if name in whole or name.startswith(beginnings)}
