"""Random commands of every kind, sensible or not, generated from the definition of `Command`.

New commands are therefore tested as soon as they are defined. Values come from small pools, so that commands often
refer to each other's results; the pools include values that a careless or newer proposer might send.
"""

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from headrace_proto.catalog.v1 import Durability
from headrace_proto.metadata.v1 import Command

OPERATIONS = [field.name for field in Command.DESCRIPTOR.oneofs_by_name["operation"].fields]

# Relative frequency of kinds, default 1: destructive commands are rare.
_WEIGHTS = {
    "delete_stream": 1,
    "purge_stream": 1,
    "delete_topic": 1,
    "purge_topic": 1,
    "delete_user": 1,
    "remove_node": 1,
    "create_stream": 6,
    "create_topic": 16,
    "create_consumer_group": 12,
    "join_consumer_group": 40,
    "leave_consumer_group": 12,
    "complete_revocation": 16,
    "pulse": 8,
    "commit_transaction": 16,
    "abort_transaction": 8,
}
_KINDS = [name for name in OPERATIONS for _ in range(_WEIGHTS.get(name, 5))]

_MAX = {Field.CPPTYPE_UINT32: 2**32 - 1, Field.CPPTYPE_UINT64: 2**64 - 1}
_IDS = [0] * 5 + [1, 1, 2, 3]
_NAMES = ["one", "two", "three", "four", "five", "six", "seven", "", "ö" * 127, "ö" * 128, "x" * 31]
_STAGES = [
    expires_at.to_bytes(8, "big") + bytes([which] * 8)
    for expires_at in (100, 1_000_100, 1_050_000, 1_300_000, 2_000_000, 4_000_000)
    for which in range(3)
]
_POOLS = {
    "partitions_count": [1, 1, 2, 3, 5, 8, 0, 1000, 1001],
    "replication_factor": [1, 1, 1, 1, 3, 3, 5, 0, 255, 256],
    "compression": [1] * 8 + [2, 0, 9],
    "durability": [0] * 5 + [*Durability.values(), 9],
    "status": [1, 1, 1, 2, 2, 0, 9],
    "message_expiry_micros": [2**64 - 1] * 5 + [1, 0],
    "max_size_bytes": [2**64 - 1] * 5 + [1, 0],
    "tokens_per_user_max": [0, 2],
    "sent_bytes_per_second": [0, 1024, 2**64 - 1, 1023],
    "read_bytes_per_second": [0, 1024, 2**64 - 1, 1023],
    "held_bytes": [0, 0, 0, 2**64 - 1],
    "connections": [0, 0, 0, 2**32 - 1],
    "expires_at_micros": [0, 1_000_100, 1_200_000, 2**64 - 1],
    "revocation_timeout_micros": [0, 10_000, 50_000, 50_000, 2**63, 2**64 - 1],
    "timeout_micros": [0, 20_000, 500_000, 500_000, 2**64 - 1],
    "client_id": [1, 1, 2, 3],
    "gateway_id": [100, 100, 101, 200],
    "incarnation": list(range(40)),
    "epoch": list(range(40)),
    # Partition incarnations of the topic that the lock-step runs begin with.
    "partition_incarnation": [3] * 40 + list(range(40)),
    "stage_ids": _STAGES * 6 + [b"", b"short", b"\xff" * 16],
    "batch_id": [1, 2, 3, 4, 5, 2**64 - 1],
    "query_id": ["one", "one", "two", ""],
    "number": [*range(40), 2**64 - 1, 2**64 - 1],
    "node_id": [1, 1, 2, 3, 9],
    "node_ids": [1, 1, 2, 3, 9],
    "shards": [1, 2, 4, 0, 2**16],
    "lease_micros": [1, 20_000, 20_000, 2**64 - 1, 0],
}


def any_command(choose):
    """Return a command.

    Args:
        choose: Returns one of the given values.
    """
    kind = choose(_KINDS)
    operation = _message(choose, Command.DESCRIPTOR.fields_by_name[kind].message_type)
    command = Command(actor_user_id=choose(_IDS), **{kind: operation})
    # Seldom, because the precondition seldom holds.
    meant = choose([None] * 6 + ["stream_incarnation", "topic_incarnation", "group_key"])
    if meant is not None:
        setattr(command, meant, choose(_POOLS["incarnation"]))
    if kind == "join_consumer_group":
        # Use the gateways of other commands.
        command.join_consumer_group.gateway.id = choose(_POOLS["gateway_id"])
    if kind == "revoke_login" and choose([True, True, False]):
        command.revoke_login.digest = choose([b"a", b"b", b"c"]) * 16
    if kind in {"commit_transaction", "abort_transaction"} and choose([True, True, False]):
        transaction = getattr(command, kind)
        transaction.stream_id = 0
        transaction.name = choose(["one", "two"])
        for stages in transaction.stages:
            stages.topic_id = 0
    if kind in {"register_node", "renew_node_lease"}:
        getattr(command, kind).incarnation = choose([5, 5, 5, 6, 0])
    return command


@st.composite
def commands(draw):
    """Strategy of commands for hypothesis."""
    return any_command(lambda pool: draw(st.sampled_from(pool)))


def _message(choose, descriptor):
    message = GetMessageClass(descriptor)()
    for field in descriptor.fields:
        if field.has_presence and field.cpp_type != Field.CPPTYPE_MESSAGE and not choose([True, True, False]):
            continue
        if field.is_repeated:
            for _ in range(choose([0, 1, 1, 2, 3])):
                if field.cpp_type == Field.CPPTYPE_MESSAGE:
                    getattr(message, field.name).add().CopyFrom(_message(choose, field.message_type))
                else:
                    getattr(message, field.name).append(_value(choose, field))
        elif field.cpp_type == Field.CPPTYPE_MESSAGE:
            if choose([True, True, False]):
                getattr(message, field.name).CopyFrom(_message(choose, field.message_type))
        else:
            setattr(message, field.name, _value(choose, field))
    return message


def _value(choose, field):
    if field.name in _POOLS:
        return choose(_POOLS[field.name])
    match field.cpp_type:
        case Field.CPPTYPE_BOOL:
            return choose([False, False, True])
        case Field.CPPTYPE_STRING if field.type == Field.TYPE_BYTES:
            return choose([b"", b"a", b"b", b"c"])
        case Field.CPPTYPE_STRING:
            return choose(_NAMES)
        case Field.CPPTYPE_UINT32 | Field.CPPTYPE_UINT64:
            return choose([*_IDS, *_IDS, _MAX[field.cpp_type]])
        case _:
            return choose([1, 1, 2, 0, 9])
