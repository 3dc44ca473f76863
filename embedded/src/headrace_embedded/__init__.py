"""The whole server in one process: metadata replica, control plane, partition node."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from headrace_embedded.errors import (
    DataDirectoryInUse,
    EmbeddedError,
    ForeignDataDirectory,
    RootCredentialsError,
    ShardEnded,
)

if TYPE_CHECKING:
    from headrace_embedded.config import EmbeddedConfig, load_config
    from headrace_embedded.server import Running, running
    from headrace_embedded.thread import Server
    from headrace_node import Recovery

__all__ = [
    "DataDirectoryInUse",
    "EmbeddedConfig",
    "EmbeddedError",
    "ForeignDataDirectory",
    "Recovery",
    "RootCredentialsError",
    "Running",
    "Server",
    "ShardEnded",
    "load_config",
    "running",
]

# Names imported on first use: importing the server takes most of a second, and the command line needs only the errors.
_MODULES: Final = {
    "EmbeddedConfig": "headrace_embedded.config",
    "Recovery": "headrace_node",
    "Running": "headrace_embedded.server",
    "Server": "headrace_embedded.thread",
    "load_config": "headrace_embedded.config",
    "running": "headrace_embedded.server",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
