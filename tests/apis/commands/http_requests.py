"""Requests of the HTTP API for the rows of `commands`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tests.apis.commands.table import LIMITED, NO_CLIENT
from tests.apis.http.api import batch
from tests.server_process import USERNAME

MEMBER: Final = "{member}"
"""Placeholder in a path for the name of the caller's group membership."""

ABSENT: Final = {
    "ABORT_TRANSACTION (of nothing)": "it is of the binary protocol",
    "ABORT_TRANSACTION": "it is of the binary protocol",
    "COMMIT_TRANSACTION": "it is of the binary protocol",
    "EXPLAIN_REFUSALS": "the document of each refusal explains it",
    "DELETE_TRANSACTION": "it is of the binary protocol",
    "GET_ME": "a request is no connection",
    "GET_TRANSACTION": "it is of the binary protocol",
    "ISSUE_TICKET (for both)": "it is of the binary protocol",
    "ISSUE_TICKET (to read)": "it is of the binary protocol",
    "ISSUE_TICKET (to send)": "it is of the binary protocol",
    "LEAVE_CONSUMER_GROUP": "asked for by the name of a membership, which only those have who have joined",
    "PIN_READER": "it is of the binary protocol",
    "SET_TRACE_CONTEXT": "the header `traceparent` says it",
    "UNPIN_READER": "it is of the binary protocol",
    "WATCH_PARTITIONS": "it is of the binary protocol",
}
"""Rows without an equivalent in the HTTP API, and the reason."""

NO_COMMANDS: Final = {"/", "/docs", "/health", "/live", "/metrics", "/openapi.json", "/users/refresh-token"}
"""Paths that execute no command."""


class Request(NamedTuple):
    """One request; the body is sent as JSON."""

    method: str
    path: str
    body: Any = None


_S: Final = "/streams/s"
_T: Final = "/streams/s/topics/t"
_DOOMED: Final = "/streams/doomed"
_GROUPS: Final = "/streams/doomed/topics/t/consumer-groups"
JOIN: Final = Request("POST", f"{_GROUPS}/g/members")
"""Add the caller to the group."""

MEMBERSHIP: Final[Sequence[Request]] = (
    Request("GET", f"{_GROUPS}/g/members/{MEMBER}/messages"),
    Request("PUT", f"{_GROUPS}/g/members/{MEMBER}/offsets", {"partition_id": 0, "offset": 0}),
    Request("DELETE", f"{_GROUPS}/g/members/{MEMBER}/offsets/0"),
    Request("DELETE", f"{_GROUPS}/g/members/{MEMBER}"),
)
"""Requests of a group member; the last one ends the membership."""


_CONNECTOR: Final = "/connectors/none"
CONNECTORS_READ: Final[Sequence[Request]] = (
    Request("GET", "/connectors"),
    Request("GET", _CONNECTOR),
    *(Request("GET", f"{_CONNECTOR}/{part}") for part in ("destinations", "history", "versions")),
)
"""Requests about connectors, which have no command: they require the right to read the server."""
CONNECTORS_CHANGED: Final[Sequence[Request]] = (
    Request("POST", f"{_CONNECTOR}/versions", {"definition": {}}),
    Request("POST", f"{_CONNECTOR}/versions/1/activate", {}),
    Request("DELETE", _CONNECTOR),
    *(Request("POST", f"{_CONNECTOR}/{action}") for action in ("start", "stop", "restart")),
)
"""Changes of connectors: they require the right to manage the server."""


def requests(*, client_id: int, access_token: str) -> dict[str, Sequence[Request]]:
    """Requests for each row, including alternative requests with the same effect."""
    found = _requests(client_id, access_token)
    return {name: [ways] if isinstance(ways, Request) else ways for name, ways in found.items()}


def _requests(client_id: int, access_token: str) -> dict[str, Request | list[Request]]:
    credentials = {"username": LIMITED, "password": LIMITED}
    new_password = {"current_password": "wrong", "new_password": "secrets"}
    snapshot = {"compression": "Stored", "snapshot_types": ["Test"]}
    taken = {"username": USERNAME, "password": "secret", "status": "active"}
    return {
        "PING": Request("GET", "/ping"),
        "LOGIN_USER": Request("POST", "/users/login", credentials),
        "LOGIN_WITH_PERSONAL_ACCESS_TOKEN": Request("POST", "/personal-access-tokens/login", {"token": access_token}),
        "LOGOUT_USER": Request("DELETE", "/users/logout"),
        "GET_STATS": [Request("GET", "/stats"), Request("GET", "/stats/history")],
        "GET_CLUSTER_METADATA": Request("GET", "/cluster/metadata"),
        "GET_CLIENTS": Request("GET", "/clients"),
        "DISCONNECT_CLIENT": Request("DELETE", f"/clients/{NO_CLIENT}"),
        # Settings, the cluster and the log have no command of their own, but require the right to this one.
        "GET_CLIENT": [
            Request("GET", f"/clients/{client_id}"),
            Request("GET", "/settings"),
            Request("GET", "/cluster"),
            Request("GET", "/logs"),
            Request("GET", "/audit?count=1"),
        ],
        "GET_SNAPSHOT": Request("POST", "/snapshot", snapshot),
        "GET_USER": Request("GET", f"/users/{USERNAME}"),
        "GET_USER (oneself)": Request("GET", f"/users/{LIMITED}"),
        "GET_USERS": Request("GET", "/users"),
        "CREATE_USER": Request("POST", "/users", taken),
        "DELETE_USER": Request("DELETE", "/users/nobody"),
        "UPDATE_USER": Request("PUT", "/users/nobody", {}),
        "UPDATE_PERMISSIONS": Request("PUT", "/users/nobody/permissions", {}),
        "CHANGE_PASSWORD (one's own)": Request("PUT", f"/users/{LIMITED}/password", new_password),
        "CHANGE_PASSWORD (another's)": Request("PUT", f"/users/{USERNAME}/password", new_password),
        "GET_QUOTAS": Request("GET", "/quotas"),
        "GET_USER_QUOTA": Request("GET", f"/users/{USERNAME}/quota"),
        "GET_USER_QUOTA (oneself)": Request("GET", f"/users/{LIMITED}/quota"),
        "SET_USER_QUOTA": [Request("PUT", "/users/missing/quota", {}), Request("DELETE", "/users/missing/quota")],
        "GET_TOPIC_QUOTA": Request("GET", f"{_T}/quota"),
        "SET_TOPIC_QUOTA": [Request("PUT", f"{_T}/quota", {}), Request("DELETE", f"{_T}/quota")],
        "GET_PERSONAL_ACCESS_TOKENS": Request("GET", "/personal-access-tokens"),
        "CREATE_PERSONAL_ACCESS_TOKEN": Request("POST", "/personal-access-tokens", {"name": LIMITED}),
        "DELETE_PERSONAL_ACCESS_TOKEN": Request("DELETE", "/personal-access-tokens/missing"),
        # Groups of topics that the caller may not read are left out.
        "GET_STREAMS": [Request("GET", "/streams"), Request("GET", "/consumer-groups")],
        "GET_STREAM": Request("GET", _S),
        "CREATE_STREAM": Request("POST", "/streams", {"name": "s"}),
        "UPDATE_STREAM": Request("PUT", _S, {"name": "s"}),
        "PURGE_STREAM": Request("DELETE", f"{_DOOMED}/purge"),
        "DELETE_STREAM": Request("DELETE", _DOOMED),
        "GET_TOPICS": Request("GET", f"{_S}/topics"),
        # The lag is computed by commands, each of which a user who may read the topic may send.
        "GET_TOPIC": [Request("GET", _T), Request("GET", f"{_T}/consumers/2/lag")],
        "CREATE_TOPIC": Request("POST", f"{_S}/topics", {"name": "t", "partitions_count": 1}),
        "UPDATE_TOPIC": Request("PUT", _T, {"name": "t"}),
        "PURGE_TOPIC": Request("DELETE", f"{_DOOMED}/topics/t/purge"),
        "DELETE_TOPIC": Request("DELETE", f"{_DOOMED}/topics/t"),
        "CREATE_PARTITIONS": Request("POST", f"{_DOOMED}/topics/t/partitions", {"partitions_count": 1}),
        "DELETE_PARTITIONS": Request("DELETE", f"{_T}/partitions?partitions_count=999"),
        "DELETE_SEGMENTS": Request("DELETE", f"{_T}/partitions/0?segments_count=1"),
        "POLL_MESSAGES": [
            Request("GET", f"{_T}/messages?kind=first"),
            Request("GET", f"{_T}/messages/search?text=m"),
            Request("GET", f"{_T}/events?kind=first"),
            Request("GET", f"{_T}/events?kind=end"),
        ],
        "DESCRIBE_PARTITIONS": Request("GET", _T),
        "READ_MESSAGES": Request("GET", f"{_T}/messages?kind=first"),
        "WAIT_MESSAGES": Request("GET", f"{_T}/messages?kind=first&wait_ms=1"),
        "SEND_MESSAGES": Request("POST", f"{_T}/messages", batch(b"m", partition=99)),
        "FLUSH_UNSAVED_BUFFER": [
            Request("GET", f"{_T}/messages/flush/0/false"),
            Request("POST", f"{_T}/messages/flush/0/false"),
        ],
        "GET_CONSUMER_OFFSET": Request("GET", f"{_T}/consumer-offsets?consumer_id=2"),
        "STORE_CONSUMER_OFFSET": Request("PUT", f"{_T}/consumer-offsets", {"offset": 99}),
        "DELETE_CONSUMER_OFFSET": Request("DELETE", f"{_T}/consumer-offsets/1"),
        "GET_CONSUMER_GROUPS": Request("GET", f"{_T}/consumer-groups"),
        "GET_CONSUMER_GROUP": [
            Request("GET", f"{_T}/consumer-groups/g"),
            Request("GET", f"{_T}/consumer-groups/g/lag"),
        ],
        "CREATE_CONSUMER_GROUP": Request("POST", f"{_T}/consumer-groups", {"name": "g"}),
        "DELETE_CONSUMER_GROUP": Request("DELETE", f"{_GROUPS}/g"),
        "JOIN_CONSUMER_GROUP": JOIN,
    }
