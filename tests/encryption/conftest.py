"""Servers with certificates."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from tests.conftest import StartServer
from tests.encryption.certificates import ServerFiles
from tests.server_process import ServerProcess

TLS = {"TCP_TLS_ENABLED": "true", "EDGE_CERTIFICATE_CHECK_INTERVAL": "50 ms"}
"""TLS on the port of the binary protocol; renewed certificates are detected quickly."""
WEBSOCKET_TLS = {"WEBSOCKET_TLS_ENABLED": "true"}
"""TLS on the port of the binary protocol over WebSocket."""


@pytest.fixture
def files(tmp_path: Path) -> ServerFiles:
    """A certificate of a new authority for `localhost`, in files."""
    files = ServerFiles(tmp_path, trustme.CA())
    files.write()
    return files


@pytest.fixture
def tls_server(start_server: StartServer, files: ServerFiles) -> ServerProcess:
    """A server that shows this certificate."""
    return start_server(TLS | files.settings())
