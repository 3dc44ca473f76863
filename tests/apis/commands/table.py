"""Every command with the rights that permit it: the table that the decisions of all APIs are compared with.

A row is one request, in the bytes of the binary protocol. Each other API has a module with its equivalents
(`commands_grpc`, `commands_http`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.guarded import guarded
from tests.rights import POLL, SEND, SERVER_MANAGE, STREAM_MANAGE, STREAM_READ, TOPIC_MANAGE, TOPIC_READ, USERS_MANAGE
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

CAPABILITIES: Final = 10_000
WAIT_MESSAGES: Final = 10_001
WATCH_PARTITIONS: Final = 10_002
SET_TRACE_CONTEXT: Final = 10_003
DISCONNECT_CLIENT: Final = 10_004
READ_MESSAGES: Final = 10_005
DESCRIBE_PARTITIONS: Final = 10_006
EXPLAIN_REFUSALS: Final = 10_007
OPEN_LINK: Final = 10_010
LOGIN_WITH_TICKET: Final = 10_011
ISSUE_TICKET: Final = 10_012
STAGE_MESSAGES: Final = 10_020
COMMIT_TRANSACTION: Final = 10_021
ABORT_TRANSACTION: Final = 10_022
GET_TRANSACTION: Final = 10_023
PIN_READER: Final = 10_024
UNPIN_READER: Final = 10_025
PLAN_RANGE: Final = 10_026
DELETE_TRANSACTION: Final = 10_027
EXTENSIONS: Final = {
    CAPABILITIES: "CAPABILITIES",
    WAIT_MESSAGES: "WAIT_MESSAGES",
    WATCH_PARTITIONS: "WATCH_PARTITIONS",
    SET_TRACE_CONTEXT: "SET_TRACE_CONTEXT",
    DISCONNECT_CLIENT: "DISCONNECT_CLIENT",
    READ_MESSAGES: "READ_MESSAGES",
    DESCRIBE_PARTITIONS: "DESCRIBE_PARTITIONS",
    EXPLAIN_REFUSALS: "EXPLAIN_REFUSALS",
    OPEN_LINK: "OPEN_LINK",
    LOGIN_WITH_TICKET: "LOGIN_WITH_TICKET",
    ISSUE_TICKET: "ISSUE_TICKET",
    STAGE_MESSAGES: "STAGE_MESSAGES",
    COMMIT_TRANSACTION: "COMMIT_TRANSACTION",
    ABORT_TRANSACTION: "ABORT_TRANSACTION",
    GET_TRANSACTION: "GET_TRANSACTION",
    PIN_READER: "PIN_READER",
    UNPIN_READER: "UNPIN_READER",
    PLAN_RANGE: "PLAN_RANGE",
    DELETE_TRANSACTION: "DELETE_TRANSACTION",
}
"""Names of the commands that the Iggy protocol (0.8) does not have."""


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
        changes_connection: True if the connection has another user afterwards, or cannot send another request.
        undone_by: Requests of root that undo the command.
    """

    name: str
    code: int
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


def codes_of_the_codec() -> dict[int, str]:
    """Commands of the native codec, read from its table."""
    source = Path(__file__).parents[3] / "core/crates/wire/src/command/mod.rs"
    _, _, table = source.read_text(encoding="utf-8").partition("\ncommands! {\n")
    rows = re.findall(r"^ {4}(\w+)(?:\(.*\))? = ([\d_]+),$", table.partition("\n}\n")[0], re.MULTILINE)
    return {int(code): name for name, code in rows}


def _command(code: int, payload: bytes = b"", granted_by: set[str] | None = None, what: str = "", **more) -> Command:
    name = EXTENSIONS.get(code) or Code(code).name
    return Command(
        name=f"{name} {what}".rstrip(),
        code=code,
        payload=payload,
        granted_by=frozenset(granted_by or ()),
        **more,
    )


def _public(access_token: str) -> tuple[Command, ...]:
    no_ticket = frames.u32(6) + b"ticket"
    return (
        _command(Code.PING, is_public=True),
        _command(CAPABILITIES, is_public=True),
        _command(EXPLAIN_REFUSALS, is_public=True),
        _command(Code.LOGIN_USER, frames.login(LIMITED, LIMITED), is_public=True, changes_connection=True),
        _command(Code.LOGIN_WITH_TOKEN, frames.name(access_token), is_public=True, changes_connection=True),
        _command(OPEN_LINK, bytes(24) + no_ticket, is_public=True, status=INVALID_TICKET, changes_connection=True),
        _command(LOGIN_WITH_TICKET, no_ticket, is_public=True, status=INVALID_TICKET),
    )


def _of_every_user() -> tuple[Command, ...]:
    wrong_password = frames.name("wrong") + frames.name("secrets")
    return (
        _command(Code.GET_ME),
        _command(Code.GET_CLUSTER_METADATA),
        _command(SET_TRACE_CONTEXT, bytes(25)),
        _command(Code.GET_USER, frames.ident(LIMITED), what="(oneself)"),
        _command(
            Code.CHANGE_PASSWORD,
            frames.ident(LIMITED) + wrong_password,
            what="(one's own)",
            status=Status.INVALID_CREDENTIALS,
        ),
        _command(Code.GET_TOKENS),
        _command(Code.CREATE_TOKEN, frames.name(LIMITED) + frames.u64(0), status=Status.TOKEN_ALREADY_EXISTS),
        _command(Code.DELETE_TOKEN, frames.name("missing"), status=Status.RESOURCE_NOT_FOUND),
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
            _command(row.code, existing.get(row.code, row.payload), row.granted_by, status=row.permitted_status)
            for row in guarded("s", "t")
        ),
        _command(
            Code.CHANGE_PASSWORD,
            others_password,
            USERS_MANAGE,
            "(another's)",
            status=Status.INVALID_CREDENTIALS,
        ),
        _command(DISCONNECT_CLIENT, frames.u32(NO_CLIENT), SERVER_MANAGE, status=CLIENT_NOT_FOUND),
        _command(WAIT_MESSAGES, poll + frames.u32(0) + frames.u64(0), POLL),
        _command(READ_MESSAGES, poll + frames.u32(0) + frames.u64(0), POLL),
        _command(DESCRIBE_PARTITIONS, S + T, TOPIC_READ),
        _command(
            WATCH_PARTITIONS,
            frames.u8(1) + frames.u32(1) + S + T + frames.u32(1) + frames.u32(0),
            POLL,
            changes_connection=True,
        ),
        _command(ISSUE_TICKET, S + T + frames.u8(1) + frames.u32(60), POLL, "(to read)"),
        _command(ISSUE_TICKET, S + T + frames.u8(2) + frames.u32(60), SEND, "(to send)"),
        _command(ISSUE_TICKET, S + T + frames.u8(3) + frames.u32(60), POLL & SEND, "(for both)"),
        _command(PLAN_RANGE, S + T + frames.u32(0) + frames.u64(0) + frames.u64(9) + frames.u64(0), POLL),
    )


def _of_transactions() -> tuple[Command, ...]:
    name = frames.name("transaction")
    batch = S + name + frames.name("query") + frames.u64(1)
    # A staged batch of a partition that had these ids before.
    stage = frames.u32(1) + frames.u32(0) + frames.u32(0) + frames.u64(0) + bytes(16)
    messages = frames.send("s", "t", frames.to_partition(99), [frames.message(b"m")])
    return (
        _command(STAGE_MESSAGES, bytes(25) + messages, SEND, status=Status.PARTITION_NOT_FOUND),
        _command(COMMIT_TRANSACTION, batch + frames.u8(0) + stage, SEND, status=Status.PARTITION_NOT_FOUND),
        _command(ABORT_TRANSACTION, batch + stage, SEND),
        _command(ABORT_TRANSACTION, batch + frames.u32(0), SEND, "(of nothing)"),
        _command(GET_TRANSACTION, S + name, STREAM_READ),
        _command(DELETE_TRANSACTION, S + name, STREAM_MANAGE),
        _command(PIN_READER, S + frames.name("reader") + frames.u32(1) + b"x", POLL),
        _command(UNPIN_READER, S + frames.name("reader"), POLL),
    )


def _destructive() -> tuple[Command, ...]:
    make_topic = (Code.CREATE_TOPIC, frames.create_topic("doomed", "t"))
    make_group = (Code.CREATE_GROUP, DOOMED + T + frames.name("g"))
    group = DOOMED + T + frames.ident("g")
    return (
        _command(Code.PURGE_STREAM, DOOMED, STREAM_MANAGE),
        _command(Code.PURGE_TOPIC, DOOMED + T, TOPIC_MANAGE),
        _command(
            Code.CREATE_PARTITIONS,
            DOOMED + T + frames.u32(1),
            TOPIC_MANAGE,
            undone_by=((Code.DELETE_PARTITIONS, DOOMED + T + frames.u32(1)),),
        ),
        _command(Code.JOIN_GROUP, group, TOPIC_READ, undone_by=((Code.DELETE_GROUP, group), make_group)),
        _command(Code.DELETE_GROUP, group, TOPIC_READ, undone_by=(make_group,)),
        _command(Code.DELETE_TOPIC, DOOMED + T, TOPIC_MANAGE, undone_by=(make_topic, make_group)),
        _command(
            Code.DELETE_STREAM,
            DOOMED,
            STREAM_MANAGE,
            undone_by=((Code.CREATE_STREAM, frames.name("doomed")), make_topic, make_group),
        ),
    )
