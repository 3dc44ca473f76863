"""Builders of commands on transactions and pins for tests."""

from headrace_proto.metadata.v1 import (
    AbortTransaction,
    AppliedPublications,
    Command,
    CommitTransaction,
    DeleteTransaction,
    PinReader,
    PublicationsApplied,
    StagesOfPartition,
    UnpinReader,
)


def stage(expires_at, which=0):
    """Return a stage id, different for every ``which``."""
    return expires_at.to_bytes(8, "big") + which.to_bytes(8, "big")


def at(partition, *stage_ids):
    """Return the stages of a partition, given the topic id, the partition id, and its incarnation."""
    topic_id, partition_id, incarnation = partition
    return StagesOfPartition(
        topic_id=topic_id, partition_id=partition_id, partition_incarnation=incarnation, stage_ids=stage_ids
    )


def commit(batch_id, *stages, name="t", query_id="q", fence=False, stream_id=0, actor=0, **fields):
    return Command(
        actor_user_id=actor,
        commit_transaction=CommitTransaction(
            stream_id=stream_id, name=name, query_id=query_id, batch_id=batch_id, fence=fence, stages=stages, **fields
        ),
    )


def abort(batch_id, *stages, name="t", query_id="q", stream_id=0):
    return Command(
        abort_transaction=AbortTransaction(
            stream_id=stream_id, name=name, query_id=query_id, batch_id=batch_id, stages=stages
        )
    )


def applied(partition, number, stream_id=0):
    topic_id, partition_id, incarnation = partition
    done = AppliedPublications(
        stream_id=stream_id,
        topic_id=topic_id,
        partition_id=partition_id,
        partition_incarnation=incarnation,
        number=number,
    )
    return Command(publications_applied=PublicationsApplied(partitions=[done]))


def delete_transaction(name="t", stream_id=0):
    return Command(delete_transaction=DeleteTransaction(stream_id=stream_id, name=name))


def pin(name, value=b"", stream_id=0, actor=0, **fields):
    return Command(actor_user_id=actor, pin_reader=PinReader(stream_id=stream_id, name=name, value=value, **fields))


def unpin(name, stream_id=0, actor=0, **fields):
    return Command(actor_user_id=actor, unpin_reader=UnpinReader(stream_id=stream_id, name=name, **fields))
