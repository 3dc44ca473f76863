"""Every command with what permits it: the table that the decisions of all doors are compared with.

A row is one request, in the bytes of the binary protocol. How the other doors are asked for the same stands in a module
of each (`commands_grpc`, `commands_http`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.compatibility import frames
from tests.compatibility.codes import Code, Status, Strategy
from tests.compatibility.guarded import guarded
from tests.rights import POLL, STREAM_MANAGE, TOPIC_MANAGE, TOPIC_READ, USERS_MANAGE
from tests.server_process import USERNAME

LIMITED = "limited"
"""The user whose rights change, the user's password, and the name of an access token that the user has."""

S: Final = frames.ident("s")
T: Final = frames.ident("t")
# What is deleted when the command is permitted, and made again afterwards.
DOOMED: Final = frames.ident("doomed")

CAPABILITIES: Final = 10_000
WAIT_MESSAGES: Final = 10_001
WATCH_PARTITIONS: Final = 10_002
SET_TRACE_CONTEXT: Final = 10_003
EXTENSIONS: Final = {
    CAPABILITIES: "CAPABILITIES",
    WAIT_MESSAGES: "WAIT_MESSAGES",
    WATCH_PARTITIONS: "WATCH_PARTITIONS",
    SET_TRACE_CONTEXT: "SET_TRACE_CONTEXT",
}
"""Names of what the classic protocol does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One request that does no harm: it changes nothing, or fails once it is permitted, or can be undone.

    Attributes:
        name: That of the command, with what is particular to the request behind it.
        code: Of the command.
        payload: Of the request.
        granted_by: The rights any of which permits it; nothing if a login is enough.
        status: What it is answered with when it is permitted.
        is_public: Needs no login.
        changes_connection: Whoever has asked is somebody else afterwards, or cannot ask for anything else.
        undone_by: What root has to do after it was permitted.
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
        """The answer to a user who has this right, and no other, where the request points to."""
        return self.status if not self.granted_by or right in self.granted_by else Status.UNAUTHORIZED


def commands(*, client_id: int, access_token: str) -> tuple[Command, ...]:
    """All rows.

    They need a stream `s` and a stream `doomed`, each with a topic `t` that has a group `g`; a message in the first
    partition of the former, and the offset 0 stored there for consumer 2.

    Args:
        client_id: Of some connection.
        access_token: Of the user `limited`.
    """
    return (*_public(access_token), *_of_every_user(), *_guarded(client_id), *_destructive())


def codes_of_the_codec() -> dict[int, str]:
    """The commands that the native codec knows, read from its table."""
    source = Path(__file__).parents[2] / "core/crates/wire/src/command/mod.rs"
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
    return (
        _command(Code.PING, is_public=True),
        _command(CAPABILITIES, is_public=True),
        _command(Code.LOGIN_USER, frames.login(LIMITED, LIMITED), is_public=True, changes_connection=True),
        _command(Code.LOGIN_WITH_TOKEN, frames.name(access_token), is_public=True, changes_connection=True),
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
    # Where a door answers "there is none" with an error, there has to be one.
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
        _command(WAIT_MESSAGES, poll + frames.u32(0) + frames.u64(0), POLL),
        _command(
            WATCH_PARTITIONS,
            frames.u8(1) + frames.u32(1) + S + T + frames.u32(1) + frames.u32(0),
            POLL,
            changes_connection=True,
        ),
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
