"""State of a connector: JSON with the version of its shape in front."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from headrace_connectors.contract.errors import ConnectorError, StateVersionMismatch
from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.json_values import JsonEncoder

State = TypeVar("State")
_ENCODER: Final = JsonEncoder()


class _Envelope(msgspec.Struct):
    version: int
    state: msgspec.Raw


def encode_state(version: int, state: Any) -> bytes:
    """Encode a state, of which `msgspec` can make JSON.

    Examples:
        >>> encode_state(1, {"last_id": 7})
        b'{"version":1,"state":{"last_id":7}}'
    """
    return msgspec.json.encode(_Envelope(version, msgspec.Raw(_ENCODER.encode(state))))


def decode_state(encoded: bytes, version: int, kind: type[State]) -> State:
    """Decode a state.

    Args:
        encoded: Made by `encode_state`.
        version: The one version that is read.
        kind: Type of the state.

    Raises:
        StateVersionMismatch: The state has another version.
        ConnectorError: The state cannot be read.

    Examples:
        >>> decode_state(encode_state(1, {"last_id": 7}), 1, dict[str, int])
        {'last_id': 7}
        >>> decode_state(encode_state(2, {"last_id": 7}), 1, dict[str, int])
        Traceback (most recent call last):
        headrace_connectors.contract.errors.StateVersionMismatch: the stored state has version 2, ...
    """
    try:
        envelope = msgspec.json.decode(encoded, type=_Envelope)
        if envelope.version != version:
            raise StateVersionMismatch(envelope.version, version)
        return msgspec.json.decode(envelope.state, type=kind)
    except NOT_JSON as error:
        raise ConnectorError(
            f"the stored state cannot be read: {error}; remove it deliberately to start over"
        ) from error
