"""Every command with the rights that permit it: the table that the decisions of all APIs are compared with.

A row is one request, in the bytes of the binary protocol. Each other API has a module with its equivalents
(`commands_grpc`, `commands_http`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace_proto.commands import REGISTRY
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.guarded import guarded
from tests.rights import POLL, SEND, rights_for
from tests.server_process import USERNAME

LIMITED = "limited"
"""The user whose rights change, the user's password, and the name of an access token that the user has."""

S: Final = frames.ident("s")
T: Final = frames.ident("t")
INVALID_TICKET: Final = 20_202
CLIENT_NOT_FOUND: Final = 100
NO_CLIENT: Final = 2**32 - 1
"""A client id that no connection has."""
# Deleted when the command is permitted, and recreated afterwards.
DOOMED: Final = frames.ident("doomed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A harmless request: it changes nothing, fails after it is permitted, or can be undone.

    Attributes:
        name: Name of the command, followed by the variant of the request.
        code: Code of the command.
        payload: Payload of the request.
        granted_by: Rights any of which permits the command; empty if a login is enough.
        status: Status of the response when the command is permitted.
        is_public: True if the command needs no login.
        changes_connection: True if the connection has another user or other answers, or is of no use, afterwards.
        undone_by: Requests of root that undo the command.
    """

    name: str
    code: Code
    payload: bytes = b""
    granted_by: frozenset[str] = frozenset()
    status: int = Status.OK
    is_public: bool = False
    changes_connection: bool = False
    undone_by: tuple[tuple[Code, bytes], ...] = ()

    def status_for(self, right: str | None) -> int:
        """Return the expected status for a user who has only this right, on the target of the request."""
        return self.status if not self.granted_by or right in self.granted_by else Status.UNAUTHORIZED


def commands(*, client_id: int, access_token: str) -> tuple[Command, ...]:
    """All rows.

    They need a stream `s` and a stream `doomed`, each with a topic `t` that has a group `g`; a message in the first
    partition of the former, and the offset 0 stored there for consumer 2.

    Args:
        client_id: Client id of an existing connection.
        access_token: Access token of the user `limited`.
    """
    return (
        *_public(access_token),
        *_of_every_user(),
        *_guarded(client_id),
        *_of_transactions(),
        *_destructive(),
    )


def _command(code: Code, payload: bytes = b"", what: str = "", granted_by: set[str] | None = None, **more) -> Command:
    return Command(
        name=f"{code.name} {what}".rstrip(),
        code=code,
        payload=payload,
        granted_by=frozenset(rights_for(code) if granted_by is None else granted_by),
        is_public=REGISTRY[code].is_public,
        **more,
    )


def _public(access_token: str) -> tuple[Command, ...]:
    no_ticket = frames.u32(6) + b"ticket"
    return (
        _command(Code.PING),
        _command(Code.CAPABILITIES),
        _command(Code.EXPLAIN_REFUSALS, changes_connection=True),
        _command(Code.REPORT_OFFSETS),
        _command(Code.LOGIN_USER, frames.login(LIMITED, LIMITED), changes_connection=True),
        _command(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, frames.name(access_token), changes_connection=True),
        _command(Code.OPEN_LINK, bytes(24) + no_ticket, status=INVALID_TICKET, changes_connection=True),
        _command(Code.LOGIN_WITH_TICKET, no_ticket, status=INVALID_TICKET),
    )


def _of_every_user() -> tuple[Command, ...]:
    wrong_password = frames.name("wrong") + frames.name("secrets")
    return (
        _command(Code.GET_ME),
        _command(Code.GET_CLUSTER_METADATA),
        _command(Code.SET_TRACE_CONTEXT, bytes(25)),
        _command(Code.GET_USER, frames.ident(LIMITED), what="(oneself)", granted_by=set()),
        _command(
            Code.CHANGE_PASSWORD,
            frames.ident(LIMITED) + wrong_password,
            what="(one's own)",
            granted_by=set(),
            status=Status.INVALID_CREDENTIALS,
        ),
        _command(Code.GET_QUOTAS),
        _command(Code.GET_USER_QUOTA, frames.ident(LIMITED), what="(oneself)", granted_by=set()),
        _command(Code.GET_PERSONAL_ACCESS_TOKENS),
        _command(
            Code.CREATE_PERSONAL_ACCESS_TOKEN, frames.name(LIMITED) + frames.u64(0), status=Status.TOKEN_ALREADY_EXISTS
        ),
        _command(Code.DELETE_PERSONAL_ACCESS_TOKEN, frames.name("missing"), status=Status.RESOURCE_NOT_FOUND),
        _command(Code.LOGOUT_USER, changes_connection=True),
    )


def _guarded(client_id: int) -> tuple[Command, ...]:
    poll = frames.poll("s", "t", 0, Strategy.FIRST)
    others_password = frames.ident(USERNAME) + frames.name("wrong") + frames.name("secrets")
    # The object must exist where an API answers "does not exist" with an error.
    existing = {
        Code.GET_CLIENT: frames.u32(client_id),
        Code.GET_CONSUMER_OFFSET: frames.consumer_offset("s", "t", 0, who=frames.consumer(2)),
    }
    return (
        *(
            _command(row.code, existing.get(row.code, row.payload), status=row.permitted_status)
            for row in guarded("s", "t")
        ),
        _command(
            Code.CHANGE_PASSWORD,
            others_password,
            "(another's)",
            status=Status.INVALID_CREDENTIALS,
        ),
        _command(Code.GET_USER_QUOTA, frames.ident(USERNAME)),
        _command(Code.SET_USER_QUOTA, frames.ident("missing") + bytes(28), status=Status.RESOURCE_NOT_FOUND),
        _command(Code.GET_TOPIC_QUOTA, S + T),
        _command(Code.SET_TOPIC_QUOTA, S + T + bytes(28)),
        _command(Code.DISCONNECT_CLIENT, frames.u32(NO_CLIENT), status=CLIENT_NOT_FOUND),
        _command(Code.WAIT_MESSAGES, poll + frames.u32(0) + frames.u64(0)),
        _command(Code.READ_MESSAGES, poll + frames.u32(0) + frames.u64(0)),
        _command(Code.DESCRIBE_PARTITIONS, S + T),
        _command(Code.GET_MEMBERSHIP, S + T + frames.ident("g"), status=Status.GROUP_MEMBER_NOT_FOUND),
        _command(
            Code.WATCH_PARTITIONS,
            frames.u8(1) + frames.u32(1) + S + T + frames.u32(1) + frames.u32(0),
            changes_connection=True,
        ),
        _command(Code.ISSUE_TICKET, S + T + frames.u8(1) + frames.u32(60), "(to read)", POLL),
        _command(Code.ISSUE_TICKET, S + T + frames.u8(2) + frames.u32(60), "(to send)", SEND),
        _command(Code.ISSUE_TICKET, S + T + frames.u8(3) + frames.u32(60), "(for both)", POLL & SEND),
        _command(Code.PLAN_RANGE, S + T + frames.u32(0) + frames.u64(0) + frames.u64(9) + frames.u64(0)),
    )


def _of_transactions() -> tuple[Command, ...]:
    name = frames.name("transaction")
    batch = S + name + frames.name("query") + frames.u64(1)
    # A staged batch of a partition that had these ids before.
    stage = frames.u32(1) + frames.u32(0) + frames.u32(0) + frames.u64(0) + bytes(16)
    messages = frames.send("s", "t", frames.to_partition(99), [frames.message(b"m")])
    return (
        _command(Code.STAGE_MESSAGES, bytes(25) + messages, status=Status.PARTITION_NOT_FOUND),
        _command(Code.COMMIT_TRANSACTION, batch + frames.u8(0) + stage, status=Status.PARTITION_NOT_FOUND),
        _command(Code.ABORT_TRANSACTION, batch + stage),
        _command(Code.ABORT_TRANSACTION, batch + frames.u32(0), "(of nothing)"),
        _command(Code.GET_TRANSACTION, S + name),
        _command(Code.DELETE_TRANSACTION, S + name),
        _command(Code.PIN_READER, S + frames.name("reader") + frames.u32(1) + b"x"),
        _command(Code.UNPIN_READER, S + frames.name("reader")),
    )


def _destructive() -> tuple[Command, ...]:
    make_topic = (Code.CREATE_TOPIC, frames.create_topic("doomed", "t"))
    make_group = (Code.CREATE_CONSUMER_GROUP, DOOMED + T + frames.name("g"))
    group = DOOMED + T + frames.ident("g")
    return (
        _command(Code.PURGE_STREAM, DOOMED),
        _command(Code.PURGE_TOPIC, DOOMED + T),
        _command(
            Code.CREATE_PARTITIONS,
            DOOMED + T + frames.u32(1),
            undone_by=((Code.DELETE_PARTITIONS, DOOMED + T + frames.u32(1)),),
        ),
        _command(Code.JOIN_CONSUMER_GROUP, group, undone_by=((Code.DELETE_CONSUMER_GROUP, group), make_group)),
        _command(Code.DELETE_CONSUMER_GROUP, group, undone_by=(make_group,)),
        _command(Code.DELETE_TOPIC, DOOMED + T, undone_by=(make_topic, make_group)),
        _command(
            Code.DELETE_STREAM,
            DOOMED,
            undone_by=((Code.CREATE_STREAM, frames.name("doomed")), make_topic, make_group),
        ),
    )
