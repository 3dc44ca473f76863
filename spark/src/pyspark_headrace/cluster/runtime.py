"""State of a process between calls: gRPC channels. Workers are forked, so no channel is older than its process."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import Final

import grpc

from headrace_core import keep_freed_memory
from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.connection import ConnectionOptions

_ARGUMENTS: Final = {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
    # A restarted server is available again within a second or two.
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.min_reconnect_backoff_ms": 1000,
    "grpc.max_reconnect_backoff_ms": 2000,
}

_Security = tuple[bool, str | None, str | None, str | None, str | None, tuple[tuple[str, str | int], ...]]


class Runtime:
    """Channels of this process, one per server and security settings, common to all tasks that the process runs."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self._channels: dict[tuple[str, _Security], grpc.Channel] = {}
        self._lock = threading.Lock()
        self._is_settled = False

    def gateway(self, address: str, options: ConnectionOptions) -> grpc.Channel:
        """Return the channel to a gateway."""
        return self._channel(address, options, use_tls=options.tls_enabled)

    def node(self, address: str, options: ConnectionOptions) -> grpc.Channel:
        """Return the channel to a partition node."""
        return self._channel(address, options, use_tls=options.nodes_use_tls)

    def settle(self) -> None:
        """Exclude imported modules from garbage collection, once per process.

        Spark's worker collects garbage after each task. Also keep freed memory for the next response: mapping memory
        anew takes longer than receiving the response.
        """
        if not self._is_settled:
            self._is_settled = True
            keep_freed_memory()
            gc.collect()
            gc.freeze()

    def _channel(self, address: str, options: ConnectionOptions, *, use_tls: bool) -> grpc.Channel:
        security = (
            use_tls,
            options.tls_ca,
            options.tls_certificate,
            options.tls_key,
            options.tls_server_name,
            options.channel_arguments,
        )
        with self._lock:
            channel = self._channels.get((address, security))
            if channel is None:
                channel = _opened(address, options, use_tls=use_tls)
                self._channels[address, security] = channel
        return channel


_runtime: Runtime | None = None


def runtime() -> Runtime:
    """Return the runtime of this process."""
    global _runtime  # noqa: PLW0603 - a process has one, and tasks of Spark share nothing else
    if _runtime is None or _runtime.process_id != os.getpid():
        _runtime = Runtime()
    return _runtime


def _opened(address: str, options: ConnectionOptions, *, use_tls: bool) -> grpc.Channel:
    arguments: dict[str, str | int] = {**_ARGUMENTS, **dict(options.channel_arguments)}
    if not use_tls:
        return grpc.insecure_channel(address, list(arguments.items()))
    if options.tls_server_name is not None:
        arguments["grpc.ssl_target_name_override"] = options.tls_server_name
    credentials = grpc.ssl_channel_credentials(
        _read("tls.ca", options.tls_ca),
        _read("tls.key", options.tls_key),
        _read("tls.certificate", options.tls_certificate),
    )
    return grpc.secure_channel(address, credentials, list(arguments.items()))


def _read(name: str, path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OptionError(f"option {name}: {path} cannot be read: {error}") from error
