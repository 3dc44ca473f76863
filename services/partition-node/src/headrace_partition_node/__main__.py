"""The service process: ``python -m headrace_partition_node [--config FILE]``.

The only module of this package that imports the native one; it wires them together.
"""

from __future__ import annotations

import sys

import headrace_core
from headrace_chassis import log_output
from headrace_chassis.process import ServiceProcess
from headrace_metadata_client import MetadataClientError
from headrace_node import NodeError
from headrace_partition_node.app import NativeFactory, RunningNode, running
from headrace_partition_node.config import PREFIX, PartitionNodeConfig, load_config
from headrace_partition_node.errors import PartitionNodeError

_NATIVE_FACTORY = NativeFactory(headrace_core.Node, headrace_core.TicketKey, headrace_core.Edge)

PROCESS = ServiceProcess(
    package="headrace_partition_node",
    description="Run a partition node in the foreground.",
    prefix=PREFIX,
    model=PartitionNodeConfig,
    load=load_config,
    configure_log=lambda config: log_output.configure(config.logging, node=config.node.name),
    running=lambda loaded: running(loaded.config, _NATIVE_FACTORY),
    on_started=RunningNode.log_addresses,
    refusals=(PartitionNodeError, NodeError, MetadataClientError, headrace_core.CoreError),
)

if __name__ == "__main__":
    sys.exit(PROCESS.main(sys.argv[1:]))
