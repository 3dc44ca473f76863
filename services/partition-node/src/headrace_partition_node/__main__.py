"""The service process: ``python -m headrace_partition_node [--config FILE]``.

The only module of this package that imports the native one; it wires them together.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Any

import headrace_core
from headrace_metadata_client import MetadataClientError
from headrace_node import NodeError
from headrace_partition_node.app import Natives, serve
from headrace_partition_node.config import PREFIX, PartitionNodeConfig, load_config
from headrace_partition_node.errors import PartitionNodeError
from headrace_settings import Loaded
from headrace_settings.process import log_output
from headrace_settings.process.service_process import ServiceProcess


def _serve(loaded: Loaded[PartitionNodeConfig]) -> Coroutine[Any, Any, None]:
    config = loaded.config
    log_output.configure(config.logging, node=config.node.name)
    return serve(config, Natives(headrace_core.Node, headrace_core.TicketKey, headrace_core.Edge))


PROCESS = ServiceProcess(
    package="headrace_partition_node",
    description="Run a partition node in the foreground.",
    prefix=PREFIX,
    model=PartitionNodeConfig,
    load=load_config,
    serve=_serve,
    refusals=(PartitionNodeError, NodeError, MetadataClientError, headrace_core.CoreError, OSError),
)

if __name__ == "__main__":
    sys.exit(PROCESS.main(sys.argv[1:]))
