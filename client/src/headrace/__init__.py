"""Headrace: a persistent, partitioned, append-only message log.

`connect` returns a client whose calls wait; `headrace.aio` has the same for asyncio. Names are imported when they are
used, so that the command line starts quickly.

    >>> import headrace
    >>> with headrace.connect("headrace+embedded://") as client:
    ...     client.create_stream("shop").name
    ...     client.create_topic("shop", "orders", partitions=2).name
    ...     with client.producer("shop", "orders") as producer:
    ...         place = producer.send(b"hello", key=b"customer-7").result()
    ...     [message.payload for message in client.read("shop", "orders", partition=place.partition_id)]
    'shop'
    'orders'
    [b'hello']
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headrace.sdk.client import Client, connect
    from headrace.sdk.consumer import Consumer
    from headrace.sdk.direct import Outgoing
    from headrace.sdk.direct_producer import DirectProducer
    from headrace.sdk.errors import (
        AlreadyExists,
        BufferFull,
        ClientClosed,
        ConnectionFailed,
        DeadlineExceeded,
        HeadraceError,
        InvalidArgument,
        LoginRefused,
        NotDelivered,
        NotFound,
        OutcomeUnknown,
        PermissionDenied,
        RequestRefused,
    )
    from headrace.sdk.options import ClientOptions, ConsumerOptions, DirectProducerOptions, ProducerOptions
    from headrace.sdk.producer import Producer
    from headrace.sdk.pushing import ProducerCounters
    from headrace.sdk.results import Deliveries, Delivery, Gap
    from headrace.sdk.stages import Stage
    from headrace.sdk.starts import END, FIRST, Start, at_offset, at_time
    from headrace.sdk.telemetry import ReadBatch, SentBatch, Telemetry
    from headrace_core import (
        AccessToken,
        Batch,
        Capabilities,
        Cluster,
        Connection,
        ConsumerGroup,
        ConsumerOffset,
        Delivered,
        GlobalPermissions,
        IssuedTicket,
        Message,
        MessageBatch,
        Partition,
        PartitionDescription,
        Permissions,
        PlannedRange,
        Quota,
        QuotaRecord,
        Stats,
        Stream,
        StreamPermissions,
        Topic,
        TopicPermissions,
        Transaction,
        TransactionResult,
        User,
    )

_PLACES: Final = {
    "headrace.sdk.client": ("Client", "connect"),
    "headrace.sdk.consumer": ("Consumer",),
    "headrace.sdk.direct": ("Outgoing",),
    "headrace.sdk.direct_producer": ("DirectProducer",),
    "headrace.sdk.errors": (
        "AlreadyExists",
        "BufferFull",
        "ClientClosed",
        "ConnectionFailed",
        "DeadlineExceeded",
        "HeadraceError",
        "InvalidArgument",
        "LoginRefused",
        "NotDelivered",
        "NotFound",
        "OutcomeUnknown",
        "PermissionDenied",
        "RequestRefused",
    ),
    "headrace.sdk.options": ("ClientOptions", "ConsumerOptions", "DirectProducerOptions", "ProducerOptions"),
    "headrace.sdk.producer": ("Producer",),
    "headrace.sdk.pushing": ("ProducerCounters",),
    "headrace.sdk.results": ("Deliveries", "Delivery", "Gap"),
    "headrace.sdk.stages": ("Stage",),
    "headrace.sdk.starts": ("END", "FIRST", "Start", "at_offset", "at_time"),
    "headrace.sdk.telemetry": ("ReadBatch", "SentBatch", "Telemetry"),
    "headrace_core": (
        "AccessToken",
        "Batch",
        "Capabilities",
        "Cluster",
        "Connection",
        "ConsumerGroup",
        "ConsumerOffset",
        "Delivered",
        "GlobalPermissions",
        "IssuedTicket",
        "Message",
        "MessageBatch",
        "Partition",
        "PartitionDescription",
        "Permissions",
        "PlannedRange",
        "Quota",
        "QuotaRecord",
        "Stats",
        "Stream",
        "StreamPermissions",
        "Topic",
        "TopicPermissions",
        "Transaction",
        "TransactionResult",
        "User",
    ),
}
_MODULE_OF: Final = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "END",
    "FIRST",
    "AccessToken",
    "AlreadyExists",
    "Batch",
    "BufferFull",
    "Capabilities",
    "Client",
    "ClientClosed",
    "ClientOptions",
    "Cluster",
    "Connection",
    "ConnectionFailed",
    "Consumer",
    "ConsumerGroup",
    "ConsumerOffset",
    "ConsumerOptions",
    "DeadlineExceeded",
    "Delivered",
    "Deliveries",
    "Delivery",
    "DirectProducer",
    "DirectProducerOptions",
    "Gap",
    "GlobalPermissions",
    "HeadraceError",
    "InvalidArgument",
    "IssuedTicket",
    "LoginRefused",
    "Message",
    "MessageBatch",
    "NotDelivered",
    "NotFound",
    "OutcomeUnknown",
    "Outgoing",
    "Partition",
    "PartitionDescription",
    "PermissionDenied",
    "Permissions",
    "PlannedRange",
    "Producer",
    "ProducerCounters",
    "ProducerOptions",
    "Quota",
    "QuotaRecord",
    "ReadBatch",
    "RequestRefused",
    "SentBatch",
    "Stage",
    "Start",
    "Stats",
    "Stream",
    "StreamPermissions",
    "Telemetry",
    "Topic",
    "TopicPermissions",
    "Transaction",
    "TransactionResult",
    "User",
    "at_offset",
    "at_time",
    "connect",
]


if not TYPE_CHECKING:
    # Type checkers find misspelt names only where they do not see this function.

    def __getattr__(name: str) -> Any:
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
