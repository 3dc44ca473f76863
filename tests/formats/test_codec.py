"""The binary protocol as the native module encodes and decodes it for Python (GW-4, GW-6, USE-3).

The expected bytes come from `tests.compatibility.protocol.frames`, which was written by hand, and from recorded
exchanges.
"""

import json
import struct
from pathlib import Path

import pytest
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Strategy

import headrace_core as core
from headrace_core import CodecError

RECORDED = Path(__file__).parents[2] / "core/crates/wire/tests/data/classic.jsonl"
NEVER = 2**64 - 1
IN_TOPIC = {"stream": 3, "topic": "orders"}
PATH = frames.ident(3) + frames.ident("orders")
GROUP = PATH + frames.ident(9)
STREAM = frames.ident(3)
BATCH = {"stream": 3, "transaction": "t", "query_id": "q", "batch_id": 9}
ENCODED_BATCH = STREAM + frames.name("t") + frames.name("q") + frames.u64(9)
STAGES = struct.pack("<I", 2) + struct.pack("<IIQQQ", 1, 2, 3, 4, 0) + struct.pack("<IIQ", 5, 6, 7) + b"\xff" * 16


def _metadata(encoded):
    return frames.u32(len(encoded)) + encoded


WITHOUT_ROW = {
    *(Code.SEND_MESSAGES, Code.WATCH_PARTITIONS, Code.SET_TRACE_CONTEXT),
    *(Code.EXPLAIN_REFUSALS, Code.OPEN_LINK, Code.LOGIN_WITH_TICKET),
}
"""Commands that other tests encode, and those that Python code does not send."""

RIGHTS = core.Permissions(
    everywhere=core.GlobalPermissions(read_streams=True, send_messages=True),
    streams={
        3: core.StreamPermissions(read_stream=True, topics={5: core.TopicPermissions(send_messages=True)}),
        1: core.StreamPermissions(manage_topics=True, topics={}),
    },
)
RIGHTS_BYTES = frames.permissions(
    ["read_streams", "send_messages"],
    streams={3: ["read_stream"], 1: ["manage_topics"]},
    topics={(3, 5): ["send_messages"]},
)

COMMANDS = [
    (core.encode_ping, {}, Code.PING, b""),
    (core.encode_get_stats, {}, Code.GET_STATS, b""),
    (core.encode_get_snapshot, {"compression": 2, "kinds": [4, 1]}, Code.GET_SNAPSHOT, bytes([2, 2, 4, 1])),
    (core.encode_get_cluster_metadata, {}, Code.GET_CLUSTER_METADATA, b""),
    (core.encode_get_me, {}, Code.GET_ME, b""),
    (core.encode_get_client, {"client_id": 77}, Code.GET_CLIENT, frames.u32(77)),
    (core.encode_get_clients, {}, Code.GET_CLIENTS, b""),
    (core.encode_disconnect_client, {"client_id": 77}, Code.DISCONNECT_CLIENT, frames.u32(77)),
    (core.encode_get_user, {"user": "ann"}, Code.GET_USER, frames.ident("ann")),
    (core.encode_get_users, {}, Code.GET_USERS, b""),
    (
        core.encode_create_user,
        {"username": "ann", "password": "", "status": "inactive", "permissions": RIGHTS},
        Code.CREATE_USER,
        frames.create_user("ann", "", RIGHTS_BYTES, status=2),
    ),
    (core.encode_delete_user, {"user": 4}, Code.DELETE_USER, frames.ident(4)),
    (
        core.encode_update_user,
        {"user": 4, "username": "bob"},
        Code.UPDATE_USER,
        frames.ident(4) + b"\x01" + frames.name("bob") + b"\x00",
    ),
    (
        core.encode_update_user,
        {"user": 4, "status": "active"},
        Code.UPDATE_USER,
        frames.ident(4) + b"\x00\x01\x01",
    ),
    (
        core.encode_update_permissions,
        {"user": 4, "permissions": None},
        Code.UPDATE_PERMISSIONS,
        frames.ident(4) + b"\x00",
    ),
    (
        core.encode_change_password,
        {"user": 4, "current_password": "old", "new_password": "new"},
        Code.CHANGE_PASSWORD,
        frames.ident(4) + frames.name("old") + frames.name("new"),
    ),
    (
        core.encode_login_user,
        {"username": "ann", "password": "secret", "version": "1.0.0"},
        Code.LOGIN_USER,
        frames.login("ann", "secret"),
    ),
    (core.encode_logout_user, {}, Code.LOGOUT_USER, b""),
    (core.encode_get_personal_access_tokens, {}, Code.GET_PERSONAL_ACCESS_TOKENS, b""),
    (
        core.encode_create_personal_access_token,
        {"name": "ci", "expiry_micros": NEVER},
        Code.CREATE_PERSONAL_ACCESS_TOKEN,
        frames.name("ci") + frames.u64(NEVER),
    ),
    (core.encode_delete_personal_access_token, {"name": "ci"}, Code.DELETE_PERSONAL_ACCESS_TOKEN, frames.name("ci")),
    (
        core.encode_login_with_personal_access_token,
        {"token": "abc"},
        Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN,
        frames.name("abc"),
    ),
    (
        core.encode_poll_messages,
        IN_TOPIC | {"partition": 7, "strategy": "timestamp", "value": NEVER, "count": 5, "auto_commit": True},
        Code.POLL_MESSAGES,
        frames.poll(3, "orders", 7, Strategy.TIMESTAMP, NEVER, 5, auto_commit=True),
    ),
    (
        core.encode_poll_messages,
        IN_TOPIC | {"consumer": "g", "is_group": True},
        Code.POLL_MESSAGES,
        frames.poll(3, "orders", None, Strategy.NEXT, who=frames.consumer("g", group=True)),
    ),
    (
        core.encode_flush_unsaved_buffer,
        IN_TOPIC | {"partition": 2, "fsync": True},
        Code.FLUSH_UNSAVED_BUFFER,
        PATH + frames.u32(2) + b"\x01",
    ),
    (
        core.encode_get_consumer_offset,
        IN_TOPIC | {"partition": 2},
        Code.GET_CONSUMER_OFFSET,
        frames.consumer_offset(3, "orders", 2),
    ),
    (
        core.encode_delete_consumer_offset,
        IN_TOPIC | {"consumer": "x"},
        Code.DELETE_CONSUMER_OFFSET,
        frames.consumer_offset(3, "orders", None, who=frames.consumer("x")),
    ),
    (
        core.encode_store_consumer_offset,
        IN_TOPIC | {"partition": 2, "offset": 12},
        Code.STORE_CONSUMER_OFFSET,
        frames.consumer_offset(3, "orders", 2, 12),
    ),
    (core.encode_get_stream, {"stream": "42"}, Code.GET_STREAM, frames.ident("42")),
    (core.encode_get_streams, {}, Code.GET_STREAMS, b""),
    (core.encode_create_stream, {"name": "s" * 255}, Code.CREATE_STREAM, frames.name("s" * 255)),
    (core.encode_delete_stream, {"stream": 42}, Code.DELETE_STREAM, frames.ident(42)),
    (
        core.encode_update_stream,
        {"stream": 42, "name": "n"},
        Code.UPDATE_STREAM,
        frames.ident(42) + frames.name("n"),
    ),
    (core.encode_purge_stream, {"stream": 42}, Code.PURGE_STREAM, frames.ident(42)),
    (core.encode_get_topic, IN_TOPIC, Code.GET_TOPIC, PATH),
    (core.encode_get_topics, {"stream": 3}, Code.GET_TOPICS, frames.ident(3)),
    (
        core.encode_create_topic,
        {
            "stream": 3,
            "name": "orders",
            "partitions_count": 1000,
            "compression": "gzip",
            "message_expiry_micros": 5,
            "max_size_bytes": NEVER,
            "replication_factor": 3,
        },
        Code.CREATE_TOPIC,
        frames.create_topic(3, "orders", 1000, compression=2, expiry=5, size=NEVER, replication=3),
    ),
    (core.encode_delete_topic, IN_TOPIC, Code.DELETE_TOPIC, PATH),
    (
        core.encode_update_topic,
        IN_TOPIC | {"name": "n"},
        Code.UPDATE_TOPIC,
        frames.update_topic(3, "orders", "n"),
    ),
    (core.encode_purge_topic, IN_TOPIC, Code.PURGE_TOPIC, PATH),
    (core.encode_create_partitions, IN_TOPIC | {"partitions_count": 2}, Code.CREATE_PARTITIONS, PATH + frames.u32(2)),
    (core.encode_delete_partitions, IN_TOPIC | {"partitions_count": 2}, Code.DELETE_PARTITIONS, PATH + frames.u32(2)),
    (
        core.encode_delete_segments,
        IN_TOPIC | {"partition": 1, "segments_count": 2},
        Code.DELETE_SEGMENTS,
        PATH + frames.u32(1) + frames.u32(2),
    ),
    (core.encode_get_consumer_group, IN_TOPIC | {"group": 9}, Code.GET_CONSUMER_GROUP, GROUP),
    (core.encode_get_consumer_groups, IN_TOPIC, Code.GET_CONSUMER_GROUPS, PATH),
    (core.encode_create_consumer_group, IN_TOPIC | {"name": "g"}, Code.CREATE_CONSUMER_GROUP, PATH + frames.name("g")),
    (core.encode_delete_consumer_group, IN_TOPIC | {"group": 9}, Code.DELETE_CONSUMER_GROUP, GROUP),
    (core.encode_join_consumer_group, IN_TOPIC | {"group": 9}, Code.JOIN_CONSUMER_GROUP, GROUP),
    (core.encode_leave_consumer_group, IN_TOPIC | {"group": 9}, Code.LEAVE_CONSUMER_GROUP, GROUP),
    (core.encode_get_membership, IN_TOPIC | {"group": 9}, Code.GET_MEMBERSHIP, GROUP),
    (core.encode_capabilities, {}, Code.CAPABILITIES, b""),
    (core.encode_report_offsets, {}, Code.REPORT_OFFSETS, b""),
    (
        core.encode_wait_messages,
        IN_TOPIC | {"minimum_bytes": 9, "maximum_wait_micros": NEVER},
        Code.WAIT_MESSAGES,
        frames.poll(3, "orders", None, Strategy.NEXT) + frames.u32(9) + frames.u64(NEVER),
    ),
    (
        core.encode_wait_messages,
        IN_TOPIC | {"minimum_bytes": 9, "maximum_wait_micros": NEVER, "names_gap": True},
        Code.READ_MESSAGES,
        frames.poll(3, "orders", None, Strategy.NEXT) + frames.u32(9) + frames.u64(NEVER),
    ),
    (core.encode_describe_partitions, IN_TOPIC, Code.DESCRIBE_PARTITIONS, PATH),
    (
        core.encode_issue_ticket,
        IN_TOPIC | {"write": True, "lifetime_seconds": 60},
        Code.ISSUE_TICKET,
        PATH + frames.u8(2) + frames.u32(60),
    ),
    (core.encode_get_quotas, {}, Code.GET_QUOTAS, b""),
    (core.encode_get_user_quota, {"user": "ann"}, Code.GET_USER_QUOTA, frames.ident("ann")),
    (
        core.encode_set_user_quota,
        {"user": 4, "sent_bytes_per_second": 1024, "read_bytes_per_second": NEVER, "connections": 3},
        Code.SET_USER_QUOTA,
        frames.ident(4) + struct.pack("<QQQI", 1024, NEVER, 0, 3),
    ),
    (core.encode_get_topic_quota, IN_TOPIC, Code.GET_TOPIC_QUOTA, PATH),
    (
        core.encode_set_topic_quota,
        IN_TOPIC | {"sent_bytes_per_second": 2048, "held_bytes": 1},
        Code.SET_TOPIC_QUOTA,
        PATH + struct.pack("<QQQI", 2048, 0, 1, 0),
    ),
    (
        core.encode_plan_range,
        IN_TOPIC | {"partition": 1, "start": 2, "target_bytes": 3},
        Code.PLAN_RANGE,
        PATH + frames.u32(1) + frames.u64(2) + frames.u64(NEVER) + frames.u64(3),
    ),
    (
        core.encode_stage_messages,
        IN_TOPIC
        | {"partition": 1, "messages_count": 1, "batch": bytes(16) + b"message", "stage": 2**127 + 1, "chunk": 3}
        | {"is_last": True, "lifetime_seconds": 4},
        Code.STAGE_MESSAGES,
        (2**127 + 1).to_bytes(16, "little")
        + struct.pack("<IIB", 4, 3, 1)
        + _metadata(PATH + frames.to_partition(1) + frames.u32(1))
        + bytes(16)
        + b"message",
    ),
    (
        core.encode_stage_messages,
        IN_TOPIC | {"partition": 1, "messages_count": 7},
        Code.STAGE_MESSAGES,
        bytes(25) + _metadata(PATH + frames.to_partition(1) + frames.u32(7)),
    ),
    (
        core.encode_commit_transaction,
        BATCH | {"stages": [(1, 2, 3, 4), (5, 6, 7, 2**128 - 1)], "fence": True},
        Code.COMMIT_TRANSACTION,
        ENCODED_BATCH + frames.u8(1) + STAGES,
    ),
    (
        core.encode_abort_transaction,
        BATCH | {"stages": [(1, 2, 3, 4), (5, 6, 7, 2**128 - 1)]},
        Code.ABORT_TRANSACTION,
        ENCODED_BATCH + STAGES,
    ),
    (core.encode_get_transaction, {"stream": 3, "transaction": "t"}, Code.GET_TRANSACTION, STREAM + frames.name("t")),
    (
        core.encode_delete_transaction,
        {"stream": 3, "transaction": "t"},
        Code.DELETE_TRANSACTION,
        STREAM + frames.name("t"),
    ),
    (
        core.encode_pin_reader,
        {"stream": 3, "reader": "r", "value": b"pin"},
        Code.PIN_READER,
        STREAM + frames.name("r") + frames.u32(3) + b"pin",
    ),
    (core.encode_unpin_reader, {"stream": 3, "reader": "r"}, Code.UNPIN_READER, STREAM + frames.name("r")),
]


@pytest.mark.parametrize(("encode", "arguments", "code", "payload"), COMMANDS)
def test_commands_are_encoded_as_the_protocol_says(encode, arguments, code, payload):
    assert encode(**arguments) == (code, payload)


def test_every_command_can_be_encoded():
    assert {code for _, _, code, _ in COMMANDS} == set(Code) - WITHOUT_ROW


@pytest.mark.parametrize(
    ("encode", "arguments", "field", "code"),
    [
        (core.encode_create_stream, {"name": ""}, "name", 4),
        (core.encode_create_stream, {"name": "ä" * 128}, "name", 4),
        (core.encode_get_topic, {"stream": 1, "topic": ""}, "topic", 4),
        (core.encode_login_user, {"username": "ann", "password": "p" * 256}, "password", 44),
        (core.encode_update_user, {"user": 1, "status": "gone"}, "status", 3),
        (core.encode_poll_messages, IN_TOPIC | {"strategy": "never"}, "strategy", 3),
        (core.encode_issue_ticket, IN_TOPIC, "access", 3),
        (core.encode_set_user_quota, {"user": 1, "sent_bytes_per_second": 1023}, "sent_bytes_per_second", 3),
        (core.encode_set_topic_quota, IN_TOPIC | {"read_bytes_per_second": 1}, "read_bytes_per_second", 3),
        (core.encode_send_messages, {"messages": [(0, b"x", b"")], "key": b""} | IN_TOPIC, "key", 4028),
        (core.encode_send_messages, {"messages": []} | IN_TOPIC, "messages", 4009),
        (
            core.encode_send_messages,
            {"messages": [(0, b"x", b""), (0, b"", b"")]} | IN_TOPIC,
            "messages[1].payload",
            4025,
        ),
        (
            core.encode_send_messages,
            {"messages": [(0, b"x", b"h" * 100_001)]} | IN_TOPIC,
            "messages[0].user_headers",
            4017,
        ),
    ],
)
def test_values_without_encoding_are_named(encode, arguments, field, code):
    with pytest.raises(CodecError) as raised:
        encode(**arguments)
    assert (raised.value.defect, raised.value.field, raised.value.code) == ("value", field, code)
    assert str(raised.value).startswith(f"{field}: ")


def test_messages_are_encoded_in_their_order():
    code, payload = core.encode_send_messages(
        ((number, b"p%d" % number, b"h" * number) for number in range(3)),
        **IN_TOPIC,
        partition=6,
        origin_timestamp_micros=17,
    )
    messages = [frames.message(b"p%d" % n, b"h" * n, message_id=n, origin=17) for n in range(3)]
    assert code == Code.SEND_MESSAGES
    assert payload == frames.send(3, "orders", frames.to_partition(6), messages)


def test_a_batch_is_never_larger_than_allowed():
    """GW-9: the limit is checked before anything of the message is decoded or copied."""
    message = (1, b"x" * 1000, b"")
    exact = 3 * (1000 + 64 + 16)
    core.encode_send_messages([message] * 3, **IN_TOPIC, size_bytes_max=exact)
    with pytest.raises(CodecError) as raised:
        core.encode_send_messages([message] * 3, **IN_TOPIC, size_bytes_max=exact - 1)
    assert (raised.value.defect, raised.value.field) == ("too_large", "messages[2]")


DECODERS = {
    Code.GET_STATS: core.decode_stats,
    Code.GET_CLUSTER_METADATA: core.decode_cluster,
    Code.GET_ME: core.decode_connection,
    Code.GET_CLIENT: core.decode_connection,
    Code.GET_CLIENTS: core.decode_connections,
    Code.GET_USER: core.decode_user,
    Code.CREATE_USER: core.decode_user,
    Code.GET_USERS: core.decode_users,
    Code.LOGIN_USER: core.decode_identity,
    Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN: core.decode_identity,
    Code.GET_PERSONAL_ACCESS_TOKENS: core.decode_access_tokens,
    Code.CREATE_PERSONAL_ACCESS_TOKEN: core.decode_raw_access_token,
    Code.POLL_MESSAGES: core.decode_polled,
    Code.GET_CONSUMER_OFFSET: core.decode_consumer_offset,
    Code.GET_STREAM: core.decode_stream,
    Code.CREATE_STREAM: core.decode_stream,
    Code.GET_STREAMS: core.decode_streams,
    Code.GET_TOPIC: core.decode_topic,
    Code.CREATE_TOPIC: core.decode_topic,
    Code.GET_TOPICS: core.decode_topics,
    Code.GET_CONSUMER_GROUP: core.decode_consumer_group,
    Code.CREATE_CONSUMER_GROUP: core.decode_consumer_group,
    Code.GET_CONSUMER_GROUPS: core.decode_consumer_groups,
}


def recorded_answers():
    for line in RECORDED.read_text(encoding="ascii").splitlines():
        entry = json.loads(line)
        if entry["status"] == 0 and entry["code"] in DECODERS:
            yield entry["code"], bytes.fromhex(entry["response"])


def test_recorded_answers_are_decoded():
    """GW-1: answers of the reference server to official clients; a cut or padded one is refused."""
    decoded = {}
    for code, payload in recorded_answers():
        decode = DECODERS[code]
        decoded[code] = decode(payload)
        if payload:
            with pytest.raises(CodecError) as raised:
                decode(payload[:-1])
            assert raised.value.defect == "syntax"
    assert decoded.keys() == DECODERS.keys() - {Code.GET_STREAMS}
    assert decoded[Code.GET_STATS].server_version == "0.8.0"
    assert decoded[Code.GET_STATS].os_name == "Debian GNU/Linux"
    assert decoded[Code.CREATE_STREAM].created_at_micros > 10**15


def test_details_hold_what_is_below_them():
    streams = [core.decode_stream(payload) for code, payload in recorded_answers() if code == Code.GET_STREAM]
    stream = next(stream for stream in streams if stream is not None and stream.topics)
    assert len(stream.topics) == stream.topics_count
    topics = [core.decode_topic(payload) for code, payload in recorded_answers() if code == Code.GET_TOPIC]
    topic = next(topic for topic in topics if topic is not None and topic.partitions)
    assert [partition.id for partition in topic.partitions] == list(range(topic.partitions_count))
    assert topic.compression in {"none", "gzip"}


def test_what_is_missing_before_messages_is_decoded():
    polled = frames.u32(2) + frames.u64(9) + frames.u32(0)
    gap = frames.u64(3) + frames.u64(10) + polled
    found = core.decode_polled(gap, names_gap=True)
    assert (found.partition_id, found.current_offset, found.gap, len(found)) == (2, 9, (3, 10), 0)
    assert core.decode_polled(bytes(16) + polled, names_gap=True).gap is None
    assert core.decode_polled(polled).gap is None
    whole = b'{"partition_id":2,"current_offset":9,"count":0,"gap":{"from":3,"to":10},"messages":[]}'
    assert core.polled_json(gap, names_gap=True) == whole
    assert core.polled_json(polled) == b'{"partition_id":2,"current_offset":9,"count":0,"messages":[]}'
    assert b'"gap":{"from":"3","to":"10"}' in core.polled_json(gap, names_gap=True, numbers_as_text=True)
    assert core.polled_events(gap, names_gap=True) == (b'event: gap\ndata: {"from":3,"to":10}\n\n', None)
    with pytest.raises(core.CodecError):
        core.decode_polled(frames.u64(10) + frames.u64(3) + polled, names_gap=True)


def test_partitions_are_described():
    one = frames.u32(1) + frames.u8(3) + frames.u32(4) + frames.u32(2) + b"n1" + frames.u64(5) + frames.u64(6)
    two = frames.u32(2) + frames.u8(4) + bytes(24)
    first, second = core.decode_partition_descriptions(one + two)
    assert (first.id, first.state, first.node_id, first.node) == (1, "unreachable", 4, "n1")
    assert (first.first_offset, first.next_deletion_at_micros) == (5, 6)
    assert (second.id, second.state, second.node_id, second.node) == (2, "unplaced", 0, "")


def test_capabilities_are_decoded():
    answer = struct.pack("<IIIIIIQIQ", 1, 2, 10_000, 10_001, 2, 4, 60_000_000, 99, 7)
    capabilities = core.decode_capabilities(answer)
    assert (capabilities.version, capabilities.codes) == (1, [10_000, 10_001])
    assert capabilities.limits == {4: 60_000_000, 99: 7}


def test_the_place_of_a_batch():
    payload = struct.pack("<IQ", 7, 2**64 - 1)
    appended = core.decode_appended(payload)
    assert (appended.partition_id, appended.base_offset) == (7, 2**64 - 1)
    for wrong in (b"", payload[:-1], payload + b"x"):
        with pytest.raises(CodecError):
            core.decode_appended(wrong)


def test_a_membership():
    payload = struct.pack("<IIIBIB", 3, 2, 0, 0, 7, 1)
    membership = core.decode_membership(payload)
    assert (membership.member_id, membership.partitions) == (3, [(0, False), (7, True)])
    assert core.decode_membership(bytes(8)).partitions == []
    for wrong in (b"", payload[:-1], payload + b"x", payload[:-1] + b"\x02"):
        with pytest.raises(CodecError):
            core.decode_membership(wrong)


def test_nothing_is_decoded_as_nothing():
    assert core.decode_stream(b"") is None
    assert core.decode_streams(b"") == []


def test_permissions_come_back():
    answer = struct.pack("<IQB", 4, 1, 1) + frames.name("ann") + frames.opt_permissions(RIGHTS_BYTES)
    user = core.decode_user(answer)
    assert (user.id, user.status, user.username) == (4, "active", "ann")
    assert user.permissions == RIGHTS
    assert user.permissions.streams[3].topics[5].send_messages
    assert not user.permissions.everywhere.manage_users


def polled(messages, *, partition=2, current=41):
    return struct.pack("<IQI", partition, current, len(messages)) + b"".join(messages)


def test_polled_messages_become_objects_one_at_a_time():
    raw = [frames.message(b"p%d" % n, b"", message_id=2**127 + n, offset=n, origin=5) for n in range(3)]
    batch = core.decode_polled(polled(raw))
    assert (batch.partition_id, batch.current_offset, len(batch), batch.last_offset) == (2, 41, 3, 2)
    assert [message.payload for message in batch] == [b"p0", b"p1", b"p2"]
    assert [batch[index].offset for index in (-1, 0, 1)] == [2, 0, 1]
    assert batch[1].id == 2**127 + 1
    for index in (3, -4):
        with pytest.raises(IndexError):
            batch[index]
    empty = core.decode_polled(polled([]))
    assert (list(empty), empty.last_offset) == ([], None)


def test_polled_messages_become_events():
    raw = [frames.message(b"p%d" % n, offset=n) for n in (7, 8)]
    text, last_offset = core.polled_events(polled(raw))
    events = text.decode().split("\n\n")
    assert (len(events), events[-1], last_offset) == (3, "", 8)
    shown = json.loads(core.polled_json(polled(raw)))["messages"]
    for event, offset, message in zip(events, (7, 8), shown, strict=False):
        first, second = event.split("\n")
        assert first == f"id: {offset}"
        assert json.loads(second.removeprefix("data: ")) == message
    assert core.polled_events(polled([])) == (b"", None)


@pytest.mark.parametrize("cut", [1, 20, 63])
def test_cut_messages_are_refused_at_once(cut):
    whole = polled([frames.message(b"payload")])
    with pytest.raises(CodecError):
        core.decode_polled(whole[:-cut])
    with pytest.raises(CodecError):
        core.polled_json(whole[:-cut])


def test_user_headers_are_typed():
    headers = [(("string", b"key"), ("uint32", b"\x2a\0\0\0")), (("raw", b"\0"), ("bool", b"\x01"))]
    encoded = core.encode_user_headers(headers)
    assert encoded == b"\x02\x03\0\0\0key\x0b\x04\0\0\0\x2a\0\0\0" + b"\x01\x01\0\0\0\0\x03\x01\0\0\0\x01"
    assert core.decode_user_headers(encoded) == headers
    assert core.decode_user_headers(b"encrypted by the client") is None
    for wrong, code in [
        ([(("string", b""), ("raw", b"x"))], 4018),
        ([(("string", b"\xff"), ("raw", b"x"))], 4018),
        ([(("string", b"k"), ("uint32", b"x"))], 4019),
        ([(("string", b"k"), ("uint7", b"x"))], 4040),
        ([(("string", b"k"), ("raw", b"x" * 255))] * 400, 4017),
    ]:
        with pytest.raises(CodecError) as raised:
            core.encode_user_headers(wrong)
        assert raised.value.code == code


def test_an_issued_ticket():
    issued = core.decode_issued_ticket(frames.str32("hrt1.x") + frames.u64(NEVER))
    assert (issued.ticket, issued.not_after) == ("hrt1.x", NEVER)
    with pytest.raises(CodecError):
        core.decode_issued_ticket(frames.str32("hrt1.x"))


def test_a_planned_range():
    payload = struct.pack("<QQIQQQQ", 1, 9, 2, 3, 400, 5, 600)
    planned = core.decode_planned_range(payload)
    assert (planned.first_offset, planned.next_offset, planned.splits) == (1, 9, [(3, 400), (5, 600)])
    with pytest.raises(CodecError):
        core.decode_planned_range(payload[:-1])


def test_answers_about_transactions():
    stage = 2**127 + 5
    staged = core.decode_staged_messages(stage.to_bytes(16, "little") + struct.pack("<QQ", 2, 300))
    assert (staged.stage, staged.messages, staged.bytes) == (stage, 2, 300)
    for outcome, already in ((1, False), (2, True)):
        result = core.decode_transaction_result(struct.pack("<BQ", outcome, 9))
        assert (result.already_committed, result.number) == (already, 9)
    transaction = core.decode_transaction(frames.name("q") + struct.pack("<QQQ", 7, 8, 9))
    assert transaction is not None
    found = (transaction.query_id, transaction.batch_id, transaction.number, transaction.committed_at)
    assert found == ("q", 7, 8, 9)
    assert core.decode_transaction(b"") is None
    pinned = core.decode_pinned_reader(b"\1\3\0\0\0pin")
    assert (pinned.was_there, pinned.value) == (True, b"pin")
    for decode, payload in (
        (core.decode_staged_messages, bytes(31)),
        (core.decode_transaction_result, struct.pack("<BQ", 3, 9)),
        (core.decode_transaction, b"\1q"),
        (core.decode_pinned_reader, b"\2\0\0\0\0"),
    ):
        with pytest.raises(CodecError):
            decode(payload)
