"""Builders of commands for tests."""

from headrace_proto.catalog.v1 import (
    COMPRESSION_ALGORITHM_NONE,
    USER_STATUS_ACTIVE,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from headrace_proto.metadata.v1 import (
    Command,
    CreateAccessToken,
    CreatePartitions,
    CreateStream,
    CreateTopic,
    CreateUser,
    DeleteStream,
    DeleteTopic,
    UpdateTopic,
)

NEVER = 2**64 - 1
UNLIMITED = 2**64 - 1


def create_stream(name):
    return Command(create_stream=CreateStream(name=name))


def delete_stream(stream_id):
    return Command(delete_stream=DeleteStream(stream_id=stream_id))


def create_topic(stream_id, name, partitions_count=1, **settings):
    return Command(
        create_topic=CreateTopic(**topic_fields(stream_id, name, settings), partitions_count=partitions_count)
    )


def update_topic(stream_id, topic_id, name, **settings):
    return Command(update_topic=UpdateTopic(**topic_fields(stream_id, name, settings), topic_id=topic_id))


def delete_topic(stream_id, topic_id):
    return Command(delete_topic=DeleteTopic(stream_id=stream_id, topic_id=topic_id))


def create_partitions(stream_id, topic_id, count):
    return Command(create_partitions=CreatePartitions(stream_id=stream_id, topic_id=topic_id, partitions_count=count))


def create_user(username, status=USER_STATUS_ACTIVE, permissions=None):
    return Command(
        create_user=CreateUser(
            username=username, password_hash=f"hash of {username}", status=status, permissions=permissions
        )
    )


def create_token(user_id, name, digest=None, expires_at_micros=0, tokens_per_user_max=0):
    return Command(
        actor_user_id=user_id,
        create_access_token=CreateAccessToken(
            name=name,
            digest=digest or f"{user_id} {name}".encode(),
            expires_at_micros=expires_at_micros,
            tokens_per_user_max=tokens_per_user_max,
        ),
    )


def permissions_for(streams):
    """Return permissions to send, from a mapping of stream ids to topic ids."""
    return Permissions(
        streams=[
            StreamPermissions(
                stream_id=stream_id,
                send_messages=True,
                topics=[TopicPermissions(topic_id=topic_id, send_messages=True) for topic_id in topic_ids],
            )
            for stream_id, topic_ids in streams.items()
        ]
    )


def topic_fields(stream_id, name, settings):
    return {
        "stream_id": stream_id,
        "name": name,
        "compression": COMPRESSION_ALGORITHM_NONE,
        "message_expiry_micros": NEVER,
        "max_size_bytes": UNLIMITED,
        "replication_factor": 1,
        **settings,
    }
