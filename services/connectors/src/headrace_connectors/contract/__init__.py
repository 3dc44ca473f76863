"""The contract between the runtime and connectors: what a source, a sink, a transform or a codec implements.

A plugin imports this package alone. `CONTRACT_VERSION` changes when a plugin has to change.
"""

from headrace_connectors.contract.codec import Codec
from headrace_connectors.contract.errors import (
    ConnectorError,
    InvalidRecord,
    StateVersionMismatch,
    Unavailable,
)
from headrace_connectors.contract.pipelined import InFlight, Pipelined
from headrace_connectors.contract.records import (
    Destination,
    Headers,
    HeaderValue,
    Record,
    stable_id,
)
from headrace_connectors.contract.sink import Place, Received, Sink
from headrace_connectors.contract.source import Abandonable, Batch, Cdc, Lag, Opaque, Polling, Source, SourceMode
from headrace_connectors.contract.state import decode_state, encode_state
from headrace_connectors.contract.transform import Transform
from headrace_connectors.contract.version import CONTRACT_VERSION, GROUPS
from headrace_settings import Section as Settings

__all__ = [
    "CONTRACT_VERSION",
    "GROUPS",
    "Abandonable",
    "Batch",
    "Cdc",
    "Codec",
    "ConnectorError",
    "Destination",
    "HeaderValue",
    "Headers",
    "InFlight",
    "InvalidRecord",
    "Lag",
    "Opaque",
    "Pipelined",
    "Place",
    "Polling",
    "Received",
    "Record",
    "Settings",
    "Sink",
    "Source",
    "SourceMode",
    "StateVersionMismatch",
    "Transform",
    "Unavailable",
    "decode_state",
    "encode_state",
    "stable_id",
]
