"""Invariants after every command, checked on the records alone and independent of the code that made them."""

from collections import Counter

from staging_rules import StagingRules

from headrace_proto.catalog.v1 import NODE_STATUS_SILENT, Snapshot


class Rules:
    """Follows the updates as a subscriber does, and compares each group with its previous record."""

    def __init__(self, catalog: Snapshot) -> None:
        self._version = catalog.version
        self._streams = {stream.id: stream for stream in catalog.streams}
        self._topics = {(topic.stream_id, topic.id): topic for topic in catalog.topics}
        self._users = {user.id: user for user in catalog.users}
        self._tokens = {(token.user_id, token.name): token for token in catalog.access_tokens}
        self._groups = {path(group): group for group in catalog.consumer_groups}
        self._nodes = {node.id: node for node in catalog.nodes}
        self._revoked = {login.digest: login for login in catalog.revoked_logins}
        self._placements = {(placed.stream_id, placed.topic_id): placed for placed in catalog.topic_placements}
        self._staging = StagingRules(catalog, self._topics)

    def check(self, machine, command, reply, updates) -> None:
        """Check one command by its updates."""
        assert len(updates) <= 1, "one command, one update"
        assert not (reply.status and updates), f"refused with {reply.status} although it changed something"
        completed = {
            (revocation.partition_id, revocation.incarnation) for revocation in command.complete_revocation.revocations
        }
        for update in updates:
            assert update.version == self._version + 1 == machine.version, "versions have no gap"
            self._version = update.version
            for delta in update.deltas:
                previous = self._take(delta)
                self._staging.take(machine, command, delta)
                if delta.WhichOneof("change") == "consumer_group_put":
                    self._group(machine, delta.consumer_group_put, previous, completed)
                elif delta.WhichOneof("change") == "topic_placement_put":
                    self._placement(command, delta.topic_placement_put, previous)
        self._staging.check(machine, command, reply, self._streams)
        if command.WhichOneof("operation") == "pulse":
            self._nothing_is_overdue(machine)
        with_members = {member.gateway_id for group in self._groups.values() for member in group.members}
        remembered = {record.gateway.id for record in machine.state.groups.gateways()}
        assert remembered == with_members, "gateways are remembered for as long as they have members"

    def check_view(self, catalog: Snapshot) -> None:
        """Check that a follower of the updates has the same catalog."""
        assert self._version == catalog.version
        for mine, theirs in (
            (self._streams, catalog.streams),
            (self._topics, catalog.topics),
            (self._users, catalog.users),
            (self._tokens, catalog.access_tokens),
            (self._groups, catalog.consumer_groups),
            (self._nodes, catalog.nodes),
            (self._placements, catalog.topic_placements),
            (self._revoked, catalog.revoked_logins),
            (self._staging.publications, catalog.publications),
            (self._staging.aborted, catalog.aborted_stages),
        ):
            assert [mine[key] for key in sorted(mine)] == list(theirs), "the updates lead to another catalog"
        names = Counter(stream.name for stream in catalog.streams)
        assert all(count == 1 for count in names.values()), "names of streams are unique"

    def _take(self, delta):  # noqa: PLR0912  (a table)
        """Apply one change; return the replaced record."""
        match delta.WhichOneof("change"):
            case "stream_put":
                self._streams[delta.stream_put.id] = delta.stream_put
            case "stream_deleted":
                del self._streams[delta.stream_deleted]
                for records in (self._topics, self._groups, self._placements):
                    for key in [key for key in records if key[0] == delta.stream_deleted]:
                        del records[key]
            case "topic_put":
                self._topics[delta.topic_put.stream_id, delta.topic_put.id] = delta.topic_put
            case "topic_deleted":
                topic = (delta.topic_deleted.stream_id, delta.topic_deleted.topic_id)
                del self._topics[topic]
                self._placements.pop(topic, None)
                for key in [key for key in self._groups if key[:2] == topic]:
                    del self._groups[key]
            case "user_put":
                self._users[delta.user_put.id] = delta.user_put
            case "user_deleted":
                del self._users[delta.user_deleted]
                for key in [key for key in self._tokens if key[0] == delta.user_deleted]:
                    del self._tokens[key]
            case "access_token_put":
                self._tokens[delta.access_token_put.user_id, delta.access_token_put.name] = delta.access_token_put
            case "access_token_deleted":
                del self._tokens[delta.access_token_deleted.user_id, delta.access_token_deleted.name]
            case "revoked_login_put":
                assert delta.revoked_login_put.digest not in self._revoked, "a login is revoked once"
                self._revoked[delta.revoked_login_put.digest] = delta.revoked_login_put
            case "revoked_login_deleted":
                del self._revoked[delta.revoked_login_deleted]
            case "consumer_group_put":
                group = delta.consumer_group_put
                previous = self._groups.get(path(group))
                self._groups[path(group)] = group
                return previous
            case "consumer_group_deleted":
                key = delta.consumer_group_deleted
                del self._groups[key.stream_id, key.topic_id, key.group_id]
            case "node_put":
                self._nodes[delta.node_put.id] = delta.node_put
            case "node_deleted":
                del self._nodes[delta.node_deleted]
            case "topic_placement_put":
                placement = delta.topic_placement_put
                topic = (placement.stream_id, placement.topic_id)
                previous = self._placements.get(topic)
                self._placements[topic] = placement
                return previous
        return None

    def _placement(self, command, placement, previous) -> None:
        topic = self._topics.get((placement.stream_id, placement.topic_id))
        assert topic is not None, "what is placed exists"
        assert len(placement.partitions) == len(topic.partitions), "every partition is placed"
        completed = {(done.partition_id, done.epoch) for done in command.complete_placements.placements}
        for partition_id, placed in enumerate(placement.partitions):
            holding = [*placed.node_ids, *placed.leaving_node_ids]
            assert len(set(holding)) == len(holding), "a node holds one replica"
            assert self._nodes.keys() >= set(holding), "nodes that hold replicas exist"
            assert len(placed.node_ids) <= topic.replication_factor
            assert placed.holder_node_id in (holding or [0]), "who serves a partition has a replica"
            if previous is None or partition_id >= len(previous.partitions):
                continue
            was = previous.partitions[partition_id]
            held = set(was.node_ids) | set(was.leaving_node_ids)
            if (partition_id, was.epoch) in completed:
                held -= set(was.leaving_node_ids)
            if command.WhichOneof("operation") == "remove_node":
                held.discard(command.remove_node.node_id)
            assert held <= set(holding), "who holds a replica is not forgotten before the others have everything"
            if was.holder_node_id in held and (partition_id, was.epoch) not in completed:
                assert placed.holder_node_id == was.holder_node_id, (
                    "no node serves a partition before it has everything"
                )

    def _group(self, machine, group, previous, completed) -> None:
        members = {member.id: member for member in group.members}
        assert len(members) == len({(member.gateway_id, member.client_id) for member in group.members})
        owned = Counter(partition for member in group.members for partition in member.partitions)
        expected = range(group.partitions_count) if members else ()
        assert owned == Counter(expected), "each partition has one owner"
        revocations = revocations_of(group)
        for partition, (owner, revocation) in revocations.items():
            assert partition in members[owner].partitions, "who gives up a partition owns it"
            assert revocation.to_member_id in members, "who gets a partition is a member"
            assert revocation.to_member_id != owner
        if members and not revocations:
            loads = [len(member.partitions) for member in group.members]
            assert max(loads) - min(loads) <= 1, "what has settled is balanced"
        if previous is None or previous.key != group.key:
            return
        assert group.generation == previous.generation + 1
        self._moves(machine, group, previous, completed)

    def _moves(self, machine, group, previous, completed) -> None:
        members = {member.id for member in group.members}
        owners = owners_of(group)
        revocations = revocations_of(previous)
        for partition, owner in owners_of(previous).items():
            new = owners.get(partition)
            if new is None or new == owner:
                continue
            _, revocation = revocations.get(partition, (owner, None))
            target = revocation.to_member_id if revocation is not None else None
            if owner in members:
                assert new == target, "what an owner keeps moves only by a revocation"
                ended = (partition, revocation.incarnation) in completed
                overdue = revocation.deadline_micros <= machine.timestamp_micros
                assert ended or overdue, "it moves when its owner has said so, or too late"
            elif target in members:
                assert new == target, "what was to leave an owner who is gone goes where it was to go"
        for partition, (owner, revocation) in revocations.items():
            lasting = revocations_of(group).get(partition)
            if lasting is not None and owners.get(partition) == owner and lasting[1] != revocation:
                assert revocation.to_member_id not in members, "a partition on its way is not sent elsewhere"

    def _nothing_is_overdue(self, machine) -> None:
        now = machine.timestamp_micros
        for record in machine.state.groups.gateways():
            assert record.heard_at_micros + record.gateway.timeout_micros > now, "silent gateways are lost"
        for lease in machine.state.nodes.leases():
            is_over = lease.heard_at_micros + lease.lease_micros <= now
            assert not is_over or self._nodes[lease.node_id].status == NODE_STATUS_SILENT, "leases run out"
        for group in self._groups.values():
            for _, revocation in revocations_of(group).values():
                assert revocation.deadline_micros > now, "revocations end at their deadline"


def path(group):
    return group.stream_id, group.topic_id, group.id


def owners_of(group):
    return {partition: member.id for member in group.members for partition in member.partitions}


def revocations_of(group):
    """Return for each partition its owner and the revocation record."""
    return {
        revocation.partition_id: (member.id, revocation)
        for member in group.members
        for revocation in member.revocations
    }
