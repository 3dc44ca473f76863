"""The shards of this process: a native node on an asyncio loop, its settings, and connections to it."""

from headrace_node.config import ShardsConfig
from headrace_node.errors import NodeError, NotRunning, ShardEnded
from headrace_node.events import ShardEvents
from headrace_node.horizon import Horizon
from headrace_node.native import Front, NativeNode, native_document
from headrace_node.node import Handler, Node, Recovery
from headrace_node.publications import Publications

__all__ = [
    "Front",
    "Handler",
    "Horizon",
    "NativeNode",
    "Node",
    "NodeError",
    "NotRunning",
    "Publications",
    "Recovery",
    "ShardEnded",
    "ShardEvents",
    "ShardsConfig",
    "native_document",
]
