"""The whole server in one process: metadata replica, control plane, partition node."""

from headrace.embedded.config import EmbeddedConfig, load_config
from headrace.embedded.errors import DataFolderInUse, EmbeddedError, ForeignDataFolder, RootCredentialsError, ShardEnded
from headrace.embedded.server import Running, running
from headrace.embedded.thread import Server
from headrace_shards import Recovery

__all__ = [
    "DataFolderInUse",
    "EmbeddedConfig",
    "EmbeddedError",
    "ForeignDataFolder",
    "Recovery",
    "RootCredentialsError",
    "Running",
    "Server",
    "ShardEnded",
    "load_config",
    "running",
]
