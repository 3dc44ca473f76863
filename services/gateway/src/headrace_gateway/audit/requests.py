"""Mapping from control requests to audit events, without secrets."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from headrace_gateway.audit.events import OWN_ACTIONS, TOPIC_ACTIONS
from headrace_node.connections.caller import INTERFACES, Caller
from headrace_proto.commands import CommandCode
from headrace_proto.control.v1 import Request

_TRANSPORTS: Final = {1: "tcp", 2: "quic", 3: "", 4: "websocket"}

# State machine commands that users issue. The others belong to message processing or are internal to the cluster.
_CHANGES: Final = TOPIC_ACTIONS | OWN_ACTIONS | {"update_user", "delete_user", "update_permissions", "set_user_quota"}
_SECRETS: Final = frozenset({"password", "current_password", "new_password", "password_hash", "digest", "token"})
_CODES: Final[dict[int, str]] = {
    CommandCode.DELETE_SEGMENTS: "delete_segments",
    CommandCode.DISCONNECT_CLIENT: "disconnect_client",
}


def caller_of(request: Request) -> Caller:
    """Return the origin of a request."""
    interface = INTERFACES[request.interface] if request.interface < len(INTERFACES) else ""
    return Caller(request.address, interface or _TRANSPORTS.get(request.transport, ""))


def change_of(request: Request) -> tuple[str, dict[str, Any]] | None:
    """Return the action and subject of a change; None if the request is not recorded in the trail."""
    match request.WhichOneof("operation"):
        case "create_user":
            return "create_user", subject_of(request.create_user)
        case "change_password":
            return "change_password", subject_of(request.change_password)
        case "create_access_token":
            return "create_access_token", subject_of(request.create_access_token)
        case "command":
            operation = request.command.WhichOneof("operation")
            if operation in _CHANGES:
                return operation, subject_of(getattr(request.command, operation))
    return None


def is_own(request: Request) -> bool:
    """Return whether a user makes a change for itself, which needs no permission of an administrator."""
    match request.WhichOneof("operation"):
        case _ if not request.HasField("user_id"):
            return False
        case "create_access_token":
            return True
        case "change_password":
            return request.user_id == request.change_password.user_id
        case "command":
            operation = request.command.WhichOneof("operation")
            return operation in OWN_ACTIONS or operation in {"pin_reader", "unpin_reader"}
    return False


def action_of(code: int) -> str:
    """Return the name of a command of the binary protocol."""
    return _CODES.get(code, f"command {code}")


def subject_of(message: Message) -> dict[str, Any]:
    """Return the fields of a request, without those that are secret."""
    fields: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return {name: value for name, value in fields.items() if name not in _SECRETS}
