"""A partition node: shards, their storage, and the bridge to the control plane."""

from headrace_partition_node.config import PartitionNodeConfig
from headrace_partition_node.errors import NodeError, NotRunning, StartRefused
from headrace_partition_node.native import Front, NativeNode, native_document
from headrace_partition_node.node import Handler, Node, Recovery

__all__ = [
    "Front",
    "Handler",
    "NativeNode",
    "Node",
    "NodeError",
    "NotRunning",
    "PartitionNodeConfig",
    "Recovery",
    "StartRefused",
    "native_document",
]
