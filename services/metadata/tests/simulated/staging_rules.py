"""Invariants of staged batches after every command."""

from headrace_proto.metadata.v1 import TRANSACTION_OUTCOME_ALREADY_COMMITTED

# Commands that may remove pending publications, besides the removal of a whole topic.
_DROPPING = {"publications_applied", "purge_topic", "purge_stream", "delete_partitions"}


class StagingRules:
    """Tracks pending and aborted stages, and the last commit under each name."""

    def __init__(self, catalog, topics) -> None:
        """Begin with a catalog; earlier commits are unknown.

        Args:
            catalog: Current catalog.
            topics: Topics by stream and topic id, kept up to date by the caller.
        """
        self._topics = topics
        self.publications = {_key(record): record for record in catalog.publications}
        self.aborted = {_key(record): record for record in catalog.aborted_stages}
        # Last committed batch by stream incarnation, name and query.
        self._progress = {}

    def take(self, machine, command, delta) -> None:
        """Apply one change, and check it."""
        match delta.WhichOneof("change"):
            case "publication_put":
                self._publication(machine, delta.publication_put)
            case "publications_deleted":
                self._deleted(command, delta.publications_deleted)
            case "aborted_stages_put":
                record = delta.aborted_stages_put
                pending = _ids(self.publications)
                assert not pending & set(record.stage_ids), "what is committed is not given up"
                self._exists(record)
                self.aborted[_key(record)] = record
            case "aborted_stages_deleted":
                record = self.aborted.pop(_key(delta.aborted_stages_deleted))
                is_over = max(map(_expiry, record.stage_ids)) <= machine.timestamp_micros
                operation = command.WhichOneof("operation")
                assert is_over or operation == "delete_partitions", "what is given up stays so until it has expired"
            case "topic_deleted":
                self._remove((delta.topic_deleted.stream_id, delta.topic_deleted.topic_id))
            case "stream_deleted":
                self._remove((delta.stream_deleted,))

    def check(self, machine, command, reply, streams) -> None:
        """Check the command as a whole."""
        operation = command.WhichOneof("operation")
        if operation == "pulse":
            for record in self.aborted.values():
                assert max(map(_expiry, record.stage_ids)) > machine.timestamp_micros, "what is over is forgotten"
        if operation == "delete_transaction" and reply.status == 0:
            named = (streams[command.delete_transaction.stream_id].incarnation, command.delete_transaction.name)
            for key in [key for key in self._progress if key[:2] == named]:
                del self._progress[key]
        if operation != "commit_transaction" or reply.status or _is_repeated(reply):
            return
        commit = command.commit_transaction
        key = (streams[commit.stream_id].incarnation, commit.name, commit.query_id)
        assert commit.batch_id > self._progress.get(key, -1), "a batch is committed once"
        self._progress[key] = commit.batch_id
        for stages in commit.stages:
            named = (commit.stream_id, stages.topic_id, stages.partition_id, machine.op)
            pending = self.publications[named].stage_ids if stages.stage_ids else ()
            assert set(stages.stage_ids) <= set(pending), "a commit is for all that it names"

    def _publication(self, machine, record) -> None:
        assert record.number == machine.op, "publications are in the order of their commits"
        assert all(_expiry(stage_id) > machine.timestamp_micros for stage_id in record.stage_ids), (
            "no command has dropped what is committed"
        )
        for others, why in (
            (self.publications, "a stage is in one publication"),
            (self.aborted, "what is given up is not committed"),
        ):
            assert not _ids(others) & set(record.stage_ids), why
        self._exists(record)
        self.publications[_key(record)] = record

    def _deleted(self, command, key) -> None:
        assert command.WhichOneof("operation") in _DROPPING, "what is committed stays until a node has appended it"
        *place, number = _key(key)
        gone = [key for key in self.publications if list(key[:3]) == place and key[3] <= number]
        assert gone, "there was something to take off the list"
        applied = {}
        for done in command.publications_applied.partitions:
            partition = (done.stream_id, done.topic_id, done.partition_id, done.partition_incarnation)
            # A report is about everything up to its number, and one command may report a partition several times.
            applied[partition] = max(done.number, applied.get(partition, 0))
        for one in gone:
            record = self.publications.pop(one)
            if applied:
                up_to = applied.get((*place, record.partition_incarnation), 0)
                assert record.number <= up_to, "what a partition has not appended is still to come"

    def _exists(self, record) -> None:
        partitions = self._topics[record.stream_id, record.topic_id].partitions
        assert partitions[record.partition_id].incarnation == record.partition_incarnation, "its partition exists"

    def _remove(self, prefix) -> None:
        for records in (self.publications, self.aborted):
            for key in [key for key in records if key[: len(prefix)] == prefix]:
                del records[key]


def _key(record):
    return record.stream_id, record.topic_id, record.partition_id, record.number


def _ids(records):
    return {stage_id for record in records.values() for stage_id in record.stage_ids}


def _expiry(stage_id):
    return int.from_bytes(stage_id[:8], "big")


def _is_repeated(reply):
    return reply.transaction_result.outcome == TRANSACTION_OUTCOME_ALREADY_COMMITTED
