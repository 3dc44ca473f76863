"""Calls about streams, topics, users and everything else but sending and consuming."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, TypeVar

import headrace_core as core
from headrace.sdk.calls import Call, Name, changing, encoded, found, nothing, reading
from headrace.sdk.errors import AlreadyExists
from headrace.sdk.stages import Stage, references
from headrace.sdk.starts import FIRST, StartLike, start_of

Value = TypeVar("Value")

_READER = 0
_NEVER = 2**64 - 1


def micros(duration: timedelta | Literal["never"] | None) -> int:
    """Return an expiry in microseconds; None as 0, which means the server's default."""
    if duration == "never":
        return _NEVER
    if duration is None:
        return 0
    # By its fields: subclasses, such as those of Pendulum, cannot be divided by a `timedelta`.
    return (duration.days * 86_400 + duration.seconds) * 1_000_000 + duration.microseconds


class Admin(ABC):
    """Calls of the binary protocol. Each raises `HeadraceError`, in particular `NotFound` and `PermissionDenied`."""

    @abstractmethod
    def call(self, call: Call[Value]) -> Value:
        """Execute a call of `headrace.sdk.calls`, for commands without a method here."""

    # ---- the server

    def ping(self) -> None:
        """Send a request that does nothing."""
        return self.call(reading(core.encode_ping(), nothing))

    def stats(self) -> core.Stats:
        """Get statistics of the server."""
        return self.call(reading(core.encode_get_stats(), core.decode_stats))

    def cluster(self) -> core.Cluster:
        """Get the nodes of the cluster."""
        return self.call(reading(core.encode_get_cluster_metadata(), core.decode_cluster))

    def capabilities(self) -> core.Capabilities:
        """Get the extensions of the server and its limits."""
        return self.call(reading(core.encode_capabilities(), core.decode_capabilities))

    def me(self) -> core.Connection:
        """Get the connection of these calls, as the server lists it."""
        return self.call(reading(core.encode_get_me(), found(core.decode_connection, "connection")))

    def connections(self) -> list[core.Connection]:
        """List the connections of all clients."""
        return self.call(reading(core.encode_get_clients(), core.decode_connections))

    def connection(self, client_id: int) -> core.Connection:
        """Get a connection."""
        encode = encoded(lambda: core.encode_get_client(client_id=client_id))
        return self.call(reading(encode, found(core.decode_connection, f"connection {client_id}")))

    def disconnect(self, client_id: int) -> None:
        """Close a connection. Its client may connect again."""
        return self.call(changing(encoded(lambda: core.encode_disconnect_client(client_id=client_id)), nothing))

    # ---- streams

    def streams(self) -> list[core.Stream]:
        """List the streams."""
        return self.call(reading(core.encode_get_streams(), core.decode_streams))

    def stream(self, stream: Name) -> core.Stream:
        """Get a stream with its topics."""
        encode = encoded(lambda: core.encode_get_stream(stream=stream))
        return self.call(reading(encode, found(core.decode_stream, f"stream {stream!r}"), stream=stream))

    def create_stream(self, name: str, *, exist_ok: bool = False) -> core.Stream:
        """Create a stream.

        Args:
            name: Its name, 1 to 255 bytes.
            exist_ok: Return the existing stream if there is one of this name.
        """
        encode = encoded(lambda: core.encode_create_stream(name=name))
        try:
            return self.call(changing(encode, found(core.decode_stream, f"stream {name!r}"), stream=name))
        except AlreadyExists:
            if not exist_ok:
                raise
        return self.stream(name)

    def rename_stream(self, stream: Name, name: str) -> None:
        """Give a stream another name."""
        return self.call(
            changing(encoded(lambda: core.encode_update_stream(stream=stream, name=name)), nothing, stream=stream)
        )

    def purge_stream(self, stream: Name) -> None:
        """Remove all messages of a stream."""
        return self.call(changing(encoded(lambda: core.encode_purge_stream(stream=stream)), nothing, stream=stream))

    def delete_stream(self, stream: Name) -> None:
        """Delete a stream with everything in it."""
        return self.call(changing(encoded(lambda: core.encode_delete_stream(stream=stream)), nothing, stream=stream))

    # ---- topics and partitions

    def topics(self, stream: Name) -> list[core.Topic]:
        """List the topics of a stream."""
        return self.call(
            reading(encoded(lambda: core.encode_get_topics(stream=stream)), core.decode_topics, stream=stream)
        )

    def topic(self, stream: Name, topic: Name) -> core.Topic:
        """Get a topic with its partitions."""
        encode = encoded(lambda: core.encode_get_topic(stream=stream, topic=topic))
        return self.call(
            reading(
                encode, found(core.decode_topic, f"topic {topic!r} in stream {stream!r}"), stream=stream, topic=topic
            )
        )

    def create_topic(
        self,
        stream: Name,
        name: str,
        *,
        partitions: int = 1,
        message_expiry: timedelta | Literal["never"] | None = None,
        max_size_bytes: int = 0,
        exist_ok: bool = False,
    ) -> core.Topic:
        """Create a topic.

        Args:
            stream: Its stream.
            name: Its name, 1 to 255 bytes.
            partitions: Number of partitions.
            message_expiry: Age at which messages are removed, or `"never"`; None: the server's default.
            max_size_bytes: Size above which the oldest messages are removed; 0: the server's default.
            exist_ok: Return the existing topic if there is one of this name with as many partitions; its other settings
                stay as they are.
        """
        encode = encoded(
            lambda: core.encode_create_topic(
                stream=stream,
                name=name,
                partitions_count=partitions,
                message_expiry_micros=micros(message_expiry),
                max_size_bytes=max_size_bytes,
            )
        )
        try:
            return self.call(changing(encode, found(core.decode_topic, f"topic {name!r}"), stream=stream, topic=name))
        except AlreadyExists as error:
            if not exist_ok:
                raise
            taken = error
        existing = self.topic(stream, name)
        if existing.partitions_count != partitions:
            counts = f"{existing.partitions_count} partitions, not {partitions}"
            raise AlreadyExists(
                f"topic {name!r} in stream {stream!r} exists with {counts}", code=taken.code, retryable=False
            )
        return existing

    def update_topic(
        self,
        stream: Name,
        topic: Name,
        *,
        name: str,
        message_expiry: timedelta | Literal["never"] | None = None,
        max_size_bytes: int = 0,
    ) -> None:
        """Change name and limits of a topic; what is not given is set to the server's default."""
        encode = encoded(
            lambda: core.encode_update_topic(
                stream=stream,
                topic=topic,
                name=name,
                message_expiry_micros=micros(message_expiry),
                max_size_bytes=max_size_bytes,
            )
        )
        return self.call(changing(encode, nothing, stream=stream, topic=topic))

    def purge_topic(self, stream: Name, topic: Name) -> None:
        """Remove all messages of a topic; offsets begin at 0 again."""
        return self.call(
            changing(
                encoded(lambda: core.encode_purge_topic(stream=stream, topic=topic)),
                nothing,
                stream=stream,
                topic=topic,
            )
        )

    def delete_topic(self, stream: Name, topic: Name) -> None:
        """Delete a topic with everything in it."""
        return self.call(
            changing(
                encoded(lambda: core.encode_delete_topic(stream=stream, topic=topic)),
                nothing,
                stream=stream,
                topic=topic,
            )
        )

    def partitions(self, stream: Name, topic: Name) -> list[core.PartitionDescription]:
        """List the partitions of a topic with their state and node."""
        encode = encoded(lambda: core.encode_describe_partitions(stream=stream, topic=topic))
        return self.call(reading(encode, core.decode_partition_descriptions, stream=stream, topic=topic))

    def create_partitions(self, stream: Name, topic: Name, count: int) -> None:
        """Add partitions to a topic."""
        encode = encoded(lambda: core.encode_create_partitions(stream=stream, topic=topic, partitions_count=count))
        return self.call(changing(encode, nothing, stream=stream, topic=topic))

    def delete_partitions(self, stream: Name, topic: Name, count: int) -> None:
        """Delete the last partitions of a topic, with their messages."""
        encode = encoded(lambda: core.encode_delete_partitions(stream=stream, topic=topic, partitions_count=count))
        return self.call(changing(encode, nothing, stream=stream, topic=topic))

    def delete_segments(self, stream: Name, topic: Name, partition: int, count: int) -> None:
        """Delete the oldest segments of a partition."""
        encode = encoded(
            lambda: core.encode_delete_segments(stream=stream, topic=topic, partition=partition, segments_count=count)
        )
        return self.call(changing(encode, nothing, stream=stream, topic=topic))

    # ---- messages, one poll at a time

    def read(
        self, stream: Name, topic: Name, *, partition: int = 0, start: StartLike = FIRST, count: int = 100
    ) -> core.MessageBatch:
        """Read messages of one partition that are there now. A consumer reads continuously.

        Args:
            stream: The stream.
            topic: The topic.
            partition: Id of the partition.
            start: Where to begin; at ``"end"``, the last `count` messages.
            count: Maximum number of messages.
        """
        place = start_of(start)
        strategy = {"first": "first", "end": "last", "offset": "offset", "timestamp": "timestamp"}
        encode = encoded(
            lambda: core.encode_poll_messages(
                stream=stream,
                topic=topic,
                consumer=_READER,
                partition=partition,
                strategy=strategy[place.kind],  # type: ignore[arg-type] # one of the words
                value=place.value,
                count=count,
            )
        )
        return self.call(reading(encode, core.decode_polled, stream=stream, topic=topic))

    def flush(self, stream: Name, topic: Name, partition: int, *, fsync: bool = False) -> None:
        """Write what a server has buffered of a partition, and sync it on request."""
        encode = encoded(
            lambda: core.encode_flush_unsaved_buffer(stream=stream, topic=topic, partition=partition, fsync=fsync)
        )
        return self.call(changing(encode, nothing, stream=stream, topic=topic))

    def plan(
        self, stream: Name, topic: Name, partition: int, *, start: int = 0, end: int = 2**64 - 1, target_bytes: int = 0
    ) -> core.PlannedRange:
        """Split a range of a partition's offsets into parts of about the same size, without reading it."""
        encode = encoded(
            lambda: core.encode_plan_range(
                stream=stream, topic=topic, partition=partition, start=start, end=end, target_bytes=target_bytes
            )
        )
        return self.call(reading(encode, core.decode_planned_range, stream=stream, topic=topic))

    # ---- consumer groups and stored offsets

    def groups(self, stream: Name, topic: Name) -> list[core.ConsumerGroup]:
        """List the consumer groups of a topic, without members."""
        encode = encoded(lambda: core.encode_get_consumer_groups(stream=stream, topic=topic))
        return self.call(reading(encode, core.decode_consumer_groups, stream=stream, topic=topic))

    def group(self, stream: Name, topic: Name, group: Name) -> core.ConsumerGroup:
        """Get a consumer group with its members."""
        encode = encoded(lambda: core.encode_get_consumer_group(stream=stream, topic=topic, group=group))
        return self.call(
            reading(
                encode,
                found(core.decode_consumer_group, f"group {group!r} of topic {topic!r}"),
                stream=stream,
                topic=topic,
                group=group,
            )
        )

    def create_group(self, stream: Name, topic: Name, name: str, *, exist_ok: bool = False) -> core.ConsumerGroup:
        """Create a consumer group; with `exist_ok`, return the existing one if there is one of this name."""
        encode = encoded(lambda: core.encode_create_consumer_group(stream=stream, topic=topic, name=name))
        try:
            return self.call(
                changing(
                    encode, found(core.decode_consumer_group, f"group {name!r}"), stream=stream, topic=topic, group=name
                )
            )
        except AlreadyExists:
            if not exist_ok:
                raise
        return self.group(stream, topic, name)

    def delete_group(self, stream: Name, topic: Name, group: Name) -> None:
        """Delete a consumer group with its offsets."""
        encode = encoded(lambda: core.encode_delete_consumer_group(stream=stream, topic=topic, group=group))
        return self.call(changing(encode, nothing, stream=stream, topic=topic, group=group))

    def offset(
        self, stream: Name, topic: Name, partition: int, *, consumer: Name = 0, group: Name | None = None
    ) -> core.ConsumerOffset | None:
        """Get the offset that a consumer or a group has stored; None if there is none."""
        encode = encoded(
            lambda: core.encode_get_consumer_offset(
                stream=stream,
                topic=topic,
                consumer=consumer if group is None else group,
                is_group=group is not None,
                partition=partition,
            )
        )
        return self.call(reading(encode, core.decode_consumer_offset, stream=stream, topic=topic, group=group))

    def store_offset(self, stream: Name, topic: Name, partition: int, offset: int, *, consumer: Name) -> None:
        """Store the offset of the last message that a consumer outside of groups has processed.

        It belongs to the user who stores the first one in the partition.

        Raises:
            PermissionDenied: It belongs to another user, and this one may not manage the topic.
        """
        encode = encoded(
            lambda: core.encode_store_consumer_offset(
                stream=stream, topic=topic, consumer=consumer, partition=partition, offset=offset
            )
        )
        return self.call(reading(encode, nothing, stream=stream, topic=topic))

    def delete_offset(self, stream: Name, topic: Name, partition: int, *, consumer: Name) -> None:
        """Delete the stored offset of a consumer outside of groups.

        Raises:
            PermissionDenied: It belongs to another user, and this one may not manage the topic.
        """
        encode = encoded(
            lambda: core.encode_delete_consumer_offset(
                stream=stream, topic=topic, consumer=consumer, partition=partition
            )
        )
        return self.call(changing(encode, nothing, stream=stream, topic=topic))

    # ---- users and permissions

    def users(self) -> list[core.User]:
        """List the users, without permissions."""
        return self.call(reading(core.encode_get_users(), core.decode_users))

    def user(self, user: Name) -> core.User:
        """Get a user with permissions."""
        encode = encoded(lambda: core.encode_get_user(user=user))
        return self.call(reading(encode, found(core.decode_user, f"user {user!r}"), user=user))

    def create_user(
        self, username: str, password: str, *, active: bool = True, permissions: core.Permissions | None = None
    ) -> core.User:
        """Create a user; without permissions, it may do nothing."""
        encode = encoded(
            lambda: core.encode_create_user(
                username=username,
                password=password,
                status="active" if active else "inactive",
                permissions=permissions,
            )
        )
        return self.call(changing(encode, found(core.decode_user, f"user {username!r}"), user=username))

    def update_user(self, user: Name, *, username: str | None = None, active: bool | None = None) -> None:
        """Rename a user, or let the user log in or not."""
        encode = encoded(
            lambda: core.encode_update_user(
                user=user,
                username=username,
                status=None if active is None else "active" if active else "inactive",
            )
        )
        return self.call(changing(encode, nothing, user=user))

    def set_permissions(self, user: Name, permissions: core.Permissions | None) -> None:
        """Replace the permissions of a user."""
        encode = encoded(lambda: core.encode_update_permissions(user=user, permissions=permissions))
        return self.call(changing(encode, nothing, user=user))

    def change_password(self, user: Name, *, current: str, new: str) -> None:
        """Change a password. Other sessions of the user end."""
        encode = encoded(lambda: core.encode_change_password(user=user, current_password=current, new_password=new))
        return self.call(changing(encode, nothing, user=user))

    def delete_user(self, user: Name) -> None:
        """Delete a user."""
        return self.call(changing(encoded(lambda: core.encode_delete_user(user=user)), nothing, user=user))

    # ---- quotas

    def quotas(self) -> list[core.QuotaRecord]:
        """List the quotas of the users and topics that one may read, and one's own."""
        return self.call(reading(core.encode_get_quotas(), core.decode_quotas))

    def user_quota(self, user: Name) -> core.Quota:
        """Get the quota of a user; 0 is no limit."""
        encode = encoded(lambda: core.encode_get_user_quota(user=user))
        return self.call(reading(encode, found(core.decode_quota, f"user {user!r}"), user=user))

    def set_user_quota(
        self, user: Name, *, sent_bytes_per_second: int = 0, read_bytes_per_second: int = 0, connections: int = 0
    ) -> None:
        """Replace the quota of a user, which all of its connections to a server share. Without limits it is removed.

        Args:
            user: The user. Root has no quota, and one's own is for others to change.
            sent_bytes_per_second: Rate of sent messages, at least 1024; 0: no limit.
            read_bytes_per_second: Rate of read messages, at least 1024; 0: no limit.
            connections: Number of connections at a time; 0: no limit.
        """
        encode = encoded(
            lambda: core.encode_set_user_quota(
                user=user,
                sent_bytes_per_second=sent_bytes_per_second,
                read_bytes_per_second=read_bytes_per_second,
                connections=connections,
            )
        )
        return self.call(changing(encode, nothing, user=user))

    def topic_quota(self, stream: Name, topic: Name) -> core.Quota:
        """Get the quota of a topic; 0 is no limit."""
        encode = encoded(lambda: core.encode_get_topic_quota(stream=stream, topic=topic))
        return self.call(
            reading(
                encode, found(core.decode_quota, f"topic {topic!r} in stream {stream!r}"), stream=stream, topic=topic
            )
        )

    def set_topic_quota(
        self,
        stream: Name,
        topic: Name,
        *,
        sent_bytes_per_second: int = 0,
        read_bytes_per_second: int = 0,
        held_bytes: int = 0,
    ) -> None:
        """Replace the quota of a topic, which all of its users share. Without limits it is removed.

        Args:
            stream: The stream.
            topic: The topic.
            sent_bytes_per_second: Rate of sent messages, at least 1024; 0: no limit.
            read_bytes_per_second: Rate of read messages, at least 1024; 0: no limit.
            held_bytes: Size of all partitions; 0: no limit.
        """
        encode = encoded(
            lambda: core.encode_set_topic_quota(
                stream=stream,
                topic=topic,
                sent_bytes_per_second=sent_bytes_per_second,
                read_bytes_per_second=read_bytes_per_second,
                held_bytes=held_bytes,
            )
        )
        return self.call(changing(encode, nothing, stream=stream, topic=topic))

    # ---- access tokens and tickets

    def tokens(self) -> list[core.AccessToken]:
        """List one's own access tokens, without their secrets."""
        return self.call(reading(core.encode_get_personal_access_tokens(), core.decode_access_tokens))

    def create_token(self, name: str, *, expiry: timedelta | None = None) -> str:
        """Create an access token and return its secret, which the server does not show again."""
        encode = encoded(lambda: core.encode_create_personal_access_token(name=name, expiry_micros=micros(expiry)))
        return self.call(changing(encode, core.decode_raw_access_token))

    def delete_token(self, name: str) -> None:
        """Delete an access token. Its sessions end."""
        return self.call(changing(encoded(lambda: core.encode_delete_personal_access_token(name=name)), nothing))

    def ticket(
        self, stream: Name, topic: Name, *, read: bool = False, write: bool = False, lifetime: timedelta | None = None
    ) -> core.IssuedTicket:
        """Issue a ticket for a topic, with which a job reads and writes at partition nodes without a password."""
        encode = encoded(
            lambda: core.encode_issue_ticket(
                stream=stream,
                topic=topic,
                read=read,
                write=write,
                lifetime_seconds=micros(lifetime) // 1_000_000,
            )
        )
        return self.call(reading(encode, core.decode_issued_ticket, stream=stream, topic=topic))

    # ---- transactions

    def transaction(self, stream: Name, name: str) -> core.Transaction | None:
        """Get the last commit under the name of a transaction; None if there is none. It begins nothing.

        A transaction begins with `DirectProducer.stage`, and ends with `commit_transaction` or `abort_transaction`.
        """
        encode = encoded(lambda: core.encode_get_transaction(stream=stream, transaction=name))
        return self.call(reading(encode, core.decode_transaction, stream=stream))

    def commit_transaction(
        self,
        stream: Name,
        transaction: str,
        query_id: str,
        batch_id: int,
        stages: Sequence[Stage],
        *,
        fence: bool = False,
    ) -> core.TransactionResult:
        """Commit stages of any topics of a stream, of `DirectProducer.stage`: all of them at once, or none.

        A caller that does not know the outcome repeats the call: a batch is committed once. Readers see the messages
        soon after the answer. A refusal has committed nothing.

        Args:
            stream: The stream.
            transaction: Name that the writer keeps over its restarts.
            query_id: Identity of the present writer of that name. Another one is refused with the code 20300.
            batch_id: Number of the batch, which grows from batch to batch.
            stages: The stages, those of one partition in their order; none for an empty batch.
            fence: Become the writer: the earlier one is refused from then on.
        """
        encode = encoded(
            lambda: core.encode_commit_transaction(
                stream=stream,
                transaction=transaction,
                query_id=query_id,
                batch_id=batch_id,
                stages=references(stages),
                fence=fence,
            )
        )
        return self.call(changing(encode, core.decode_transaction_result, stream=stream))

    def abort_transaction(
        self, stream: Name, transaction: str, query_id: str, batch_id: int, stages: Sequence[Stage]
    ) -> core.TransactionResult:
        """Discard stages that were not committed, before they expire. Arguments as of `commit_transaction`."""
        encode = encoded(
            lambda: core.encode_abort_transaction(
                stream=stream,
                transaction=transaction,
                query_id=query_id,
                batch_id=batch_id,
                stages=references(stages),
            )
        )
        return self.call(changing(encode, core.decode_transaction_result, stream=stream))

    def delete_transaction(self, stream: Name, name: str) -> None:
        """Delete the record of the last commit under a name; its messages stay."""
        encode = encoded(lambda: core.encode_delete_transaction(stream=stream, transaction=name))
        return self.call(changing(encode, nothing, stream=stream))
