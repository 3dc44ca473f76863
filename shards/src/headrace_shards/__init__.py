"""The shards of this process: a native node on an asyncio loop, its settings, and connections to it."""

from headrace_shards.config import ShardsConfig
from headrace_shards.errors import NodeError, NotRunning, ShardEnded, StartRefused
from headrace_shards.events import ShardEvents
from headrace_shards.horizon import Horizon
from headrace_shards.native import Front, NativeNode, native_document
from headrace_shards.node import Handler, Node, Recovery
from headrace_shards.publications import Publications

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
    "StartRefused",
    "native_document",
]
