"""Names of users, streams and topics cannot be probed by users without the right to see them (decision 58)."""

from __future__ import annotations

import json

import aiohttp
import grpc
import pytest

from headrace_core import encode_change_password
from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, access_token
from tests.apis.http.api import Api
from tests.apis.push.browser import Refusal, logged_in
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import ServerProcess

THERE, NOT_THERE = "there", "nowhere"


@pytest.fixture(scope="module")
def prepared(shared_server: ServerProcess) -> ServerProcess:
    """A server with a stream, a topic and a user of this name, and a user without rights."""
    with RawConnection.as_root(shared_server.address) as root:
        root.create_topic(THERE, THERE, 1)
        for name in (THERE, "limited"):
            root.ok(Code.CREATE_USER, frames.create_user(name, "password"))
    return shared_server


def test_over_the_binary_protocol(prepared: ServerProcess) -> None:
    with RawConnection(prepared.address) as limited:
        limited.ok(Code.LOGIN_USER, frames.login("limited", "password"))
        for name in (THERE, NOT_THERE):
            stream, topic = frames.ident(name), frames.ident(name) + frames.ident(name)
            group = topic + frames.ident("g")
            asked = [
                (Code.GET_USER, frames.ident(name)),
                encode_change_password(user=name, current_password="password", new_password="another"),
                (Code.GET_STREAM, stream),
                (Code.DELETE_STREAM, stream),
                (Code.PURGE_STREAM, stream),
                (Code.GET_TOPIC, topic),
                (Code.GET_TOPICS, stream),
                (Code.DELETE_TOPIC, topic),
                (Code.CREATE_TOPIC, frames.create_topic(name, "t")),
                (Code.GET_CONSUMER_GROUPS, topic),
                (Code.GET_CONSUMER_GROUP, group),
                (Code.POLL_MESSAGES, frames.poll(name, name, 0, Strategy.FIRST)),
                (Code.SEND_MESSAGES, frames.send(name, name, frames.to_partition(0), [frames.message(b"m")])),
            ]
            for code, payload in asked:
                assert limited.status(code, payload) == Status.UNAUTHORIZED, (code, name)
        # Users may read their own record.
        limited.ok(Code.GET_USER, frames.ident("limited"))
    with RawConnection.as_root(prepared.address) as root:
        assert root.ok(Code.GET_STREAM, frames.ident(NOT_THERE)) == b"", "those who may see all streams hear of none"


async def test_over_http_and_push(prepared: ServerProcess) -> None:
    async with aiohttp.ClientSession() as session:
        limited = await Api(session, prepared.http_url).login("limited", "password")
        for path in ("/users/{}", "/streams/{}", "/streams/{}/topics", "/streams/{0}/topics/{0}"):
            answers = [await limited("GET", path.format(name)) for name in (THERE, NOT_THERE)]
            assert [answer.status for answer in answers] == [403, 403], path
            there, not_there = (json.loads(answer.body) for answer in answers)
            # The reason has the name that was asked for.
            there["reason"] = there["reason"].replace(THERE, NOT_THERE)
            assert {key: there[key] for key in ("id", "code", "reason")} == {
                key: not_there[key] for key in ("id", "code", "reason")
            }
        async with logged_in(limited) as browser:
            codes = []
            for number, name in enumerate((THERE, NOT_THERE), 1):
                with pytest.raises(Refusal) as refusal:
                    await browser.subscribe(name, name, number)
                codes.append((refusal.value.code, refusal.value.field))
            assert codes == [(Status.UNAUTHORIZED, codes[0][1])] * 2


def test_over_grpc(prepared: ServerProcess) -> None:
    with RawConnection(prepared.address) as limited:
        limited.ok(Code.LOGIN_USER, frames.login("limited", "password"))
        token = access_token(limited)
    with GrpcCaller(prepared.grpc_address, token) as caller:
        for name in (THERE, NOT_THERE):
            with pytest.raises(grpc.RpcError) as refused:
                caller.catalog.GetStream(v1.GetStreamRequest(stream=v1.Identifier(name=name)))
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED, name
