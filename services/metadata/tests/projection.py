"""View of a subscriber, built from updates as the native catalog does."""

from headrace_proto.catalog.v1 import Snapshot


class Projection:
    """Every record by its key; a deletion includes contained records."""

    def __init__(self, snapshot):
        self.version = snapshot.version
        self.records = {
            "streams": {record.id: record for record in snapshot.streams},
            "topics": {(record.stream_id, record.id): record for record in snapshot.topics},
            "users": {record.id: record for record in snapshot.users},
            "access_tokens": {(record.user_id, record.name): record for record in snapshot.access_tokens},
            "consumer_groups": {
                (record.stream_id, record.topic_id, record.id): record for record in snapshot.consumer_groups
            },
            "nodes": {record.id: record for record in snapshot.nodes},
            "revoked_logins": {record.digest: record for record in snapshot.revoked_logins},
            "topic_placements": {(record.stream_id, record.topic_id): record for record in snapshot.topic_placements},
            "publications": {staged(record): record for record in snapshot.publications},
            "aborted_stages": {staged(record): record for record in snapshot.aborted_stages},
        }

    def apply(self, update):  # noqa: PLR0912, PLR0915  (a table)
        assert update.version == self.version + 1
        assert len(update.deltas) > 0
        self.version = update.version
        records = self.records
        for delta in update.deltas:
            change = getattr(delta, delta.WhichOneof("change"))
            match delta.WhichOneof("change"):
                case "stream_put":
                    records["streams"][change.id] = change
                case "stream_deleted":
                    del records["streams"][change]
                    self.forget_below("topics", (change,))
                    self.forget_below("consumer_groups", (change,))
                    self.forget_below("topic_placements", (change,))
                    self.forget_below("publications", (change,))
                    self.forget_below("aborted_stages", (change,))
                case "topic_put":
                    assert change.stream_id in records["streams"]
                    records["topics"][change.stream_id, change.id] = change
                case "topic_deleted":
                    del records["topics"][change.stream_id, change.topic_id]
                    self.forget_below("consumer_groups", (change.stream_id, change.topic_id))
                    self.forget_below("topic_placements", (change.stream_id, change.topic_id))
                    self.forget_below("publications", (change.stream_id, change.topic_id))
                    self.forget_below("aborted_stages", (change.stream_id, change.topic_id))
                case "user_put":
                    records["users"][change.id] = change
                case "user_deleted":
                    del records["users"][change]
                    self.forget_below("access_tokens", (change,))
                case "access_token_put":
                    assert change.user_id in records["users"]
                    records["access_tokens"][change.user_id, change.name] = change
                case "access_token_deleted":
                    del records["access_tokens"][change.user_id, change.name]
                case "consumer_group_put":
                    assert (change.stream_id, change.topic_id) in records["topics"]
                    records["consumer_groups"][change.stream_id, change.topic_id, change.id] = change
                case "consumer_group_deleted":
                    del records["consumer_groups"][change.stream_id, change.topic_id, change.group_id]
                case "revoked_login_put":
                    records["revoked_logins"][change.digest] = change
                case "revoked_login_deleted":
                    del records["revoked_logins"][change]
                case "node_put":
                    records["nodes"][change.id] = change
                case "node_deleted":
                    del records["nodes"][change]
                case "topic_placement_put":
                    # A reader can resolve every reference.
                    assert (change.stream_id, change.topic_id) in records["topics"]
                    for partition in change.partitions:
                        assert {*partition.node_ids, *partition.leaving_node_ids} <= records["nodes"].keys()
                    records["topic_placements"][change.stream_id, change.topic_id] = change
                case "publication_put":
                    self.assert_partition_exists(change)
                    records["publications"][staged(change)] = change
                case "publications_deleted":
                    *place, number = staged(change)
                    gone = [key for key in records["publications"] if list(key[:3]) == place and key[3] <= number]
                    assert gone
                    for key in gone:
                        del records["publications"][key]
                case "aborted_stages_put":
                    self.assert_partition_exists(change)
                    records["aborted_stages"][staged(change)] = change
                case "aborted_stages_deleted":
                    del records["aborted_stages"][staged(change)]
                case unknown:
                    raise AssertionError(unknown)

    def assert_partition_exists(self, record):
        topic = self.records["topics"][record.stream_id, record.topic_id]
        assert topic.partitions[record.partition_id].incarnation == record.partition_incarnation

    def forget_below(self, kind, prefix):
        kept = self.records[kind]
        self.records[kind] = {key: record for key, record in kept.items() if key[: len(prefix)] != prefix}

    def snapshot(self):
        return Snapshot(
            version=self.version,
            **{kind: [records[key] for key in sorted(records)] for kind, records in self.records.items()},
        )


def staged(record):
    return record.stream_id, record.topic_id, record.partition_id, record.number
