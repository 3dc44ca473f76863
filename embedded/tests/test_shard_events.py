"""The end of a shard ends the server."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import headrace_core
from headrace_embedded import Server, ShardEnded
from headrace_embedded import server as composition

ENDED = "a shard thread ended: the ring is gone"


class NodeWithAnEnd:
    """A real node whose first shard reports its end."""

    reported = False

    def __init__(self, config: str) -> None:
        self._node = headrace_core.Node(config)

    def __getattr__(self, name: str) -> object:
        return getattr(self._node, name)

    def take_events(self) -> list[tuple[str, str]]:
        if self.reported:
            return []
        self.reported = True
        return [("error", ENDED)]


def test_the_end_of_a_shard_ends_the_embedded_server(
    monkeypatch: pytest.MonkeyPatch, driver: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    class Core:
        Edge = headrace_core.Edge
        Node = NodeWithAnEnd
        CoreError = headrace_core.CoreError
        MetadataReplica = headrace_core.MetadataReplica

    monkeypatch.setattr(composition, "headrace_core", Core)
    with pytest.raises(ShardEnded, match="the ring is gone"), Server(settings=driver) as server:
        server._thread.join(30)
    assert ENDED in caplog.text


def test_the_end_of_a_shard_ends_the_process_with_a_failure(tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        import os
        import sys
        import headrace_core
        real = headrace_core.Node

        class Node:
            is_reported = False

            def __init__(self, config):
                self.node = real(config)

            def __getattr__(self, name):
                return getattr(self.node, name)

            def take_events(self):
                is_reported, self.is_reported = self.is_reported, True
                return [] if is_reported else [("error", {ENDED!r})]

        headrace_core.Node = Node
        from headrace.cli.app import main

        os.environ["HEADRACE_GRPC_ADDRESS"] = "127.0.0.1:0"
        os.environ["HEADRACE_HTTP_ADDRESS"] = "127.0.0.1:0"
        os.environ["HEADRACE_PIPELINES_ADDRESS"] = "127.0.0.1:0"
        sys.argv = ["headrace", "up", "--data", {str(tmp_path)!r}, "--port", "0", "--with-default-root-credentials"]
        main()
    """)
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"HEADRACE_WEBSOCKET_ADDRESS": "127.0.0.1:0", "HEADRACE_QUIC_ENABLED": "false"},
    )
    assert result.returncode == 1, result.stdout + result.stderr
    errors = " ".join(result.stderr.split())
    assert f'"event": "{ENDED}"' in errors
    assert f"error: {ENDED}; the process cannot continue without it" in errors
