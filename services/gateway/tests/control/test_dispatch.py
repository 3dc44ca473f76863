"""Requests of fronts: forwarding, resolution of defaults, refusals."""

import asyncio
import time

import pytest

from headrace_chassis.background import background
from headrace_gateway.access.token_cleaner import TokenCleaner
from headrace_proto.catalog.v1 import (
    COMPRESSION_ALGORITHM_NONE,
    DURABILITY_FSYNC,
    DURABILITY_MEMORY,
    DURABILITY_UNSPECIFIED,
    Stream,
    Topic,
)
from headrace_proto.control import v1 as control_v1
from headrace_proto.control.v1 import GetHostStatistics, GetTransaction, Request
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    TRANSACTION_OUTCOME_COMMITTED,
    AppliedPublications,
    ChangePassword,
    Command,
    CommitTransaction,
    CreateAccessToken,
    CreateConsumerGroup,
    CreateStream,
    CreateTopic,
    CreateUser,
    DeleteStream,
    PinReader,
    PinResult,
    PublicationsApplied,
    ReaderPin,
    Reply,
    Transaction,
    TransactionResult,
    UnpinReader,
    UpdateTopic,
)

NEVER = UNLIMITED = 2**64 - 1


def topic(**fields):
    return CreateTopic(stream_id=1, name="t", compression=COMPRESSION_ALGORITHM_NONE, **fields)


async def test_commands_are_proposed_in_the_name_of_who_asks(ask, metadata):
    metadata.reply = Reply(stream=Stream(id=4, name="s"))
    request = Command(actor_user_id=99, create_stream=CreateStream(name="s"))
    reply = await ask(3, command=request)
    assert (reply.status, reply.stream.id) == (0, 4)
    assert metadata.commands == [Command(actor_user_id=3, create_stream=CreateStream(name="s"))]
    assert request.actor_user_id == 99, "what was received is not changed"


async def test_outcomes_are_passed_on(command, metadata):
    metadata.reply = Reply(topic=Topic(stream_id=1, id=2))
    assert (await command(create_topic=topic())).topic == Topic(stream_id=1, id=2)
    metadata.reply = Reply(status=Status.STREAM_ID_NOT_FOUND)
    assert (await command(delete_stream=DeleteStream(stream_id=1))).status == Status.STREAM_ID_NOT_FOUND
    metadata.reply = Reply()
    assert (await command(delete_stream=DeleteStream(stream_id=1))).WhichOneof("body") is None


async def test_transactions_and_pins_are_passed_on_and_asked_for(ask, command, control, metadata):
    done = Transaction(stream_id=1, name="t", query_id="q", batch_id=7)
    metadata.reply = Reply(
        transaction_result=TransactionResult(outcome=TRANSACTION_OUTCOME_COMMITTED, transaction=done)
    )
    commit = CommitTransaction(stream_id=1, name="t", query_id="q", batch_id=7)
    assert (await command(commit_transaction=commit)).transaction_result == metadata.reply.transaction_result
    metadata.reply = Reply(pin_result=PinResult(was_there=True, pin=ReaderPin(value=b"1")))
    assert (await command(pin_reader=PinReader(stream_id=1, name="r"))).pin_result == metadata.reply.pin_result
    metadata.transactions[1, "t"] = done
    assert (await ask(3, get_transaction=GetTransaction(stream_id=1, name="t"))).transaction == done
    missing = await ask(3, get_transaction=GetTransaction(stream_id=1, name="u"))
    assert (missing.status, missing.WhichOneof("body")) == (Status.OK, None)
    unauthenticated = await control.handle(Request(get_transaction=GetTransaction(stream_id=1, name="t")))
    assert unauthenticated.status == Status.UNAUTHENTICATED


async def test_what_was_appended_is_reported_to_the_metadata_service(control, metadata, publications):
    appended = PublicationsApplied(partitions=[AppliedPublications(partition_id=3, number=7)])
    assert (await control.handle(Request(publications_applied=appended))).status == Status.OK
    async with asyncio.timeout(10), background(publications.run(), "publications"):
        while publications.waiting_count:
            await asyncio.sleep(0.001)
    assert metadata.commands == [Command(publications_applied=appended)]


async def test_server_defaults_are_resolved_when_a_topic_is_created(command, metadata):
    await command(create_topic=topic())
    created = metadata.commands[0].create_topic
    assert (created.message_expiry_micros, created.max_size_bytes, created.replication_factor) == (111, 10_000_000, 1)


async def test_server_defaults_are_resolved_when_a_topic_is_updated(command, metadata):
    await command(update_topic=UpdateTopic(stream_id=1, topic_id=2, name="t"))
    updated = metadata.commands[0].update_topic
    assert (updated.message_expiry_micros, updated.max_size_bytes, updated.replication_factor) == (111, 10_000_000, 1)


async def test_explicit_settings_stay(command, metadata):
    explicit = {"message_expiry_micros": NEVER, "max_size_bytes": UNLIMITED, "replication_factor": 3}
    await command(create_topic=topic(**explicit))
    assert metadata.commands[0].create_topic == topic(**explicit)


async def test_the_name_decides_on_the_durability_of_a_new_topic(command, metadata):
    """LOG-4: fsync for some topics; the protocol has no field for it."""
    for name, durability in (("paid-2024", DURABILITY_FSYNC), ("t", DURABILITY_UNSPECIFIED)):
        await command(create_topic=CreateTopic(stream_id=1, name=name))
        assert metadata.commands[-1].create_topic.durability == durability
    await command(create_topic=CreateTopic(stream_id=1, name="paid-2024", durability=DURABILITY_MEMORY))
    assert metadata.commands[-1].create_topic.durability == DURABILITY_MEMORY, "who asks for one gets it"


async def test_a_topic_of_an_unknown_stream_is_left_to_the_metadata_service(command, metadata):
    metadata.reply = Reply(status=Status.STREAM_ID_NOT_FOUND)
    create = CreateTopic(stream_id=9, name="paid-2024")
    assert (await command(create_topic=create)).status == Status.STREAM_ID_NOT_FOUND


async def test_a_topic_is_not_smaller_than_a_segment(command, metadata):
    assert (await command(create_topic=topic(max_size_bytes=999_999))).status == Status.INVALID_TOPIC_SIZE
    refused = await command(create_topic=topic(max_size_bytes=999_999, partitions_count=1001))
    assert refused.status == Status.TOO_MANY_PARTITIONS, "which is checked before"
    assert metadata.commands == []
    assert (await command(create_topic=topic(max_size_bytes=1_000_000))).status == 0
    update = UpdateTopic(stream_id=1, topic_id=2, name="t", max_size_bytes=1)
    assert (await command(update_topic=update)).status == 0, "an update is not checked"


async def test_commands_with_secrets_have_requests_of_their_own(command, metadata):
    for operation in (
        {"create_user": CreateUser(username="ann", password_hash="hash")},
        {"change_password": ChangePassword(user_id=0, password_hash="hash")},
        {"create_access_token": CreateAccessToken(name="token", digest=b"digest")},
        {},
    ):
        assert (await command(**operation)).status == Status.INVALID_COMMAND
    assert metadata.commands == []


async def test_only_logins_are_for_everyone(ask, control, metadata):
    for operation in (
        {"command": Command(create_stream=CreateStream(name="s"))},
        {"get_host_statistics": GetHostStatistics()},
    ):
        assert (await ask(None, **operation)).status == Status.UNAUTHENTICATED
    assert (await control.handle(Request())).status == Status.INVALID_COMMAND
    assert metadata.commands == []


class Coded(Exception):
    code = Status.CANNOT_APPEND_TO_FILE


async def test_failures_are_answered(command, metadata, caplog):
    metadata.failure = Coded("the device is full")
    create = CreateStream(name="s")
    assert (await command(create_stream=create)).status == Status.CANNOT_APPEND_TO_FILE
    assert "the device is full" in caplog.text
    metadata.failure = ZeroDivisionError("a bug")
    assert (await command(create_stream=create)).status == Status.ERROR
    assert "ZeroDivisionError: a bug" in caplog.text


async def test_host_statistics(ask, tmp_path):
    statistics = (await ask(3, get_host_statistics=GetHostStatistics())).host_statistics
    assert statistics.process_id > 0
    assert statistics.memory_usage_bytes > 1_000_000
    assert statistics.total_memory_bytes >= statistics.available_memory_bytes > 0
    assert statistics.total_disk_space_bytes >= statistics.free_disk_space_bytes > 0
    assert statistics.threads_count >= 1
    assert abs(statistics.start_time_micros + statistics.run_time_micros - time.time() * 1e6) < 5e6
    assert statistics.hostname
    assert statistics.os_name
    assert statistics.kernel_version


@pytest.fixture
def cleaner(metadata):
    return TokenCleaner(proposer=metadata, accounts=metadata, interval_seconds=0.01, clock=lambda: 1000)


async def test_expired_tokens_are_removed_when_there_are_any(cleaner, metadata):
    metadata.put_token(5, b"later", expires_at_micros=1001)
    metadata.put_token(5, b"never")
    await cleaner.clean()
    assert metadata.commands == []
    metadata.put_token(5, b"now", expires_at_micros=1000)
    await cleaner.clean()
    assert [command.WhichOneof("operation") for command in metadata.commands] == ["delete_expired_access_tokens"]


async def test_the_cleaner_goes_on_after_a_failure(cleaner, metadata, caplog):
    metadata.put_token(5, b"now", expires_at_micros=1000)
    metadata.failure = Coded("not now")
    task = asyncio.create_task(cleaner.run())
    async with asyncio.timeout(30):
        while "expired access tokens cannot be removed" not in caplog.text:
            await asyncio.sleep(0.01)
    metadata.failure = None
    async with asyncio.timeout(30):
        while not metadata.commands:
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_changes_of_a_user_for_itself_have_a_rate(ask, metadata):
    """Other users, and other changes of the user, are not affected."""

    async def statuses(user_id, count, **operation):
        return [(await ask(user_id, **operation)).status for _ in range(count)]

    group = Command(create_consumer_group=CreateConsumerGroup(stream_id=1, topic_id=1, name="g"))
    pin = Command(unpin_reader=UnpinReader(stream_id=1, name="x"))
    assert await statuses(3, 2, command=group) == [0, 0]
    assert await statuses(3, 1, create_access_token=control_v1.CreateAccessToken(name="a")) == [0]
    assert await statuses(3, 2, command=pin) == [0, Status.TOO_MANY_CHANGES]
    assert await statuses(3, 1, command=group) == [Status.TOO_MANY_CHANGES]
    assert await statuses(3, 1, change_password=control_v1.ChangePassword(user_id=3)) == [Status.TOO_MANY_CHANGES]
    proposed = len(metadata.commands)
    assert await statuses(3, 9, command=Command(create_stream=CreateStream(name="s"))) == [0] * 9
    assert await statuses(4, 2, command=group) == [0, 0]
    assert len(metadata.commands) == proposed + 11, "what is refused is not proposed"
