"""The state machine: input are commands, output are replies and catalog updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from headrace_metadata.state_machine import expiry, preconditions, quotas
from headrace_metadata.state_machine.context import CommandContext, Refused
from headrace_metadata.state_machine.groups import groups, timeouts
from headrace_metadata.state_machine.placement import nodes, placement
from headrace_metadata.state_machine.state import State
from headrace_metadata.state_machine.streams import partitions, streams, topics
from headrace_metadata.state_machine.transactions import pins, transactions
from headrace_metadata.state_machine.users import permissions, tokens, users
from headrace_metadata.state_machine.users.records import public_token
from headrace_proto.catalog.v1 import Snapshot, Update
from headrace_proto.metadata.v1 import Command, PasswordRecord, Reply, StateSnapshot


@dataclass(frozen=True, slots=True)
class Applied:
    """Result of one command.

    Attributes:
        reply: Answer for the proposer.
        update: Change of the catalog; None if there is none.
    """

    reply: Reply
    update: Update | None


class UnknownCommandError(Exception):
    """A command unknown to this release.

    Skipping it would make this replica diverge from others, so the caller must stop applying commands.
    """


class StateMachine:
    """All decisions of the metadata service.

    Deterministic: the same commands at the same ops with the same timestamps give the same replies, the same updates
    and, byte for byte, the same snapshots. Hence there is no clock, no randomness and no I/O in this package, and
    nothing is iterated over in an order that depends on the past: neither sets nor, unsorted, dictionaries.
    """

    def __init__(self) -> None:
        self.op = 0
        self.timestamp_micros = 0
        # Version of the catalog; incremented by every command that changes it.
        self.version = 0
        self.state = State()

    @classmethod
    def restore(cls, snapshot: StateSnapshot) -> StateMachine:  # noqa: PLR0912  (a table)
        """Return the machine of a snapshot."""
        machine = cls()
        machine.op = snapshot.op
        machine.timestamp_micros = snapshot.timestamp_micros
        machine.version = snapshot.catalog.version
        catalog, accounts = machine.state.catalog, machine.state.accounts
        for stream in snapshot.catalog.streams:
            catalog.put_stream(stream)
        for topic in snapshot.catalog.topics:
            catalog.put_topic(topic)
        for user in snapshot.catalog.users:
            accounts.put_user(user)
        for password in snapshot.passwords:
            accounts.put_password_hash(password.user_id, password.password_hash)
        for token in snapshot.tokens:
            accounts.put_token(token)
        for login in snapshot.catalog.revoked_logins:
            accounts.put_revoked_login(login)
        accounts.next_user_id = snapshot.next_user_id
        for group in snapshot.catalog.consumer_groups:
            machine.state.groups.put_group(group)
        for gateway in snapshot.gateways:
            machine.state.groups.put_gateway(gateway)
        machine.state.groups.next_key = snapshot.next_group_key
        for node in snapshot.catalog.nodes:
            machine.state.nodes.put_node(node)
        for lease in snapshot.node_leases:
            machine.state.nodes.put_lease(lease)
        for topic_placement in snapshot.catalog.topic_placements:
            machine.state.nodes.put_placement(topic_placement)
        machine.state.nodes.last_id = snapshot.last_node_id
        for publication in snapshot.catalog.publications:
            machine.state.stages.put_publication(publication)
        for stages in snapshot.catalog.aborted_stages:
            machine.state.stages.put_aborted(stages)
        for transaction in snapshot.transactions:
            machine.state.transactions.put(transaction)
        for pin in snapshot.reader_pins:
            machine.state.pins.add(pin)
        machine.state.changes.clear()
        return machine

    def apply(self, op: int, timestamp_micros: int, command: Command) -> Applied:
        """Apply the next command.

        Args:
            op: Previous op plus one.
            timestamp_micros: Timestamp, greater than the previous one.
            command: The command; neither modified nor retained.

        Raises:
            UnknownCommandError: This release does not know the command's operation. Nothing was changed.
            ValueError: The op or its timestamp does not follow the previous one. Nothing was changed.
        """
        if op != self.op + 1:
            raise ValueError(f"op {op} does not follow op {self.op}")
        if timestamp_micros <= self.timestamp_micros:
            raise ValueError(f"the time of op {op} is not after that of op {self.op}")
        context = CommandContext(op=op, timestamp_micros=timestamp_micros, actor_user_id=command.actor_user_id)
        changes = self.state.changes
        try:
            reply = self._dispatch(context, command)
        except Refused as refused:
            if changes:
                raise RuntimeError(f"op {op} was refused after it had changed something") from refused
            reply = Reply(status=refused.status)
        self.op, self.timestamp_micros = op, timestamp_micros

        if not changes:
            return Applied(reply, update=None)
        self.version += 1
        update = Update(version=self.version, deltas=changes)
        changes.clear()
        return Applied(reply, update)

    def catalog(self) -> Snapshot:
        """Return the whole catalog, without secrets."""
        catalog, accounts = self.state.catalog, self.state.accounts
        return Snapshot(
            version=self.version,
            streams=catalog.streams(),
            topics=(topic for stream in catalog.streams() for topic in catalog.topics_of(stream.id)),
            users=accounts.users(),
            access_tokens=(public_token(token) for token in accounts.tokens()),
            consumer_groups=self.state.groups.groups(),
            nodes=self.state.nodes.nodes(),
            topic_placements=self.state.nodes.placements(),
            revoked_logins=accounts.revoked_logins(),
            publications=self.state.stages.publications(),
            aborted_stages=self.state.stages.aborted(),
        )

    def snapshot(self) -> StateSnapshot:
        """Return the complete state for ``restore``, in canonical order."""
        accounts = self.state.accounts
        return StateSnapshot(
            op=self.op,
            timestamp_micros=self.timestamp_micros,
            catalog=self.catalog(),
            passwords=(
                PasswordRecord(user_id=user.id, password_hash=accounts.password_hash(user.id))
                for user in accounts.users()
            ),
            tokens=accounts.tokens(),
            next_user_id=accounts.next_user_id,
            gateways=self.state.groups.gateways(),
            next_group_key=self.state.groups.next_key,
            node_leases=self.state.nodes.leases(),
            last_node_id=self.state.nodes.last_id,
            transactions=self.state.transactions.transactions(),
            reader_pins=self.state.pins.pins(),
        )

    def fork(self) -> StateMachine:
        """Return an independent machine in the same state.

        Cheap, because the two share their records. A snapshot of the fork can be taken in another thread while this
        machine continues.
        """
        other = StateMachine()
        other.op, other.timestamp_micros, other.version = self.op, self.timestamp_micros, self.version
        other.state = self.state.copy()
        return other

    def _dispatch(self, context: CommandContext, command: Command) -> Reply:  # noqa: PLR0912  (a table, typed)
        state = self.state
        preconditions.check(state, command)
        match command.WhichOneof("operation"):
            case "create_stream":
                return streams.create(state, context, command.create_stream)
            case "update_stream":
                return streams.update(state, command.update_stream)
            case "delete_stream":
                return streams.delete(state, command.delete_stream)
            case "purge_stream":
                return streams.purge(state, command.purge_stream)
            case "create_topic":
                return topics.create(state, context, command.create_topic)
            case "update_topic":
                return topics.update(state, context, command.update_topic)
            case "delete_topic":
                return topics.delete(state, command.delete_topic)
            case "purge_topic":
                return topics.purge(state, command.purge_topic)
            case "set_topic_quota":
                return quotas.set_of_topic(state, command.set_topic_quota)
            case "create_partitions":
                return partitions.create(state, context, command.create_partitions)
            case "delete_partitions":
                return partitions.delete(state, context, command.delete_partitions)
            case "create_user":
                return users.create(state, context, command.create_user)
            case "update_user":
                return users.update(state, command.update_user)
            case "delete_user":
                return users.delete(state, context, command.delete_user)
            case "update_permissions":
                return permissions.update(state, command.update_permissions)
            case "change_password":
                return users.change_password(state, command.change_password)
            case "set_user_quota":
                return quotas.set_of_user(state, command.set_user_quota)
            case "create_access_token":
                return tokens.create(state, context, command.create_access_token)
            case "delete_access_token":
                return tokens.delete(state, context, command.delete_access_token)
            case "delete_expired_access_tokens":
                return tokens.delete_expired(state, context)
            case "revoke_login":
                return tokens.revoke_login(state, context, command.revoke_login)
            case "create_consumer_group":
                return groups.create(state, context, command.create_consumer_group)
            case "delete_consumer_group":
                return groups.delete(state, command.delete_consumer_group)
            case "join_consumer_group":
                return groups.join(state, context, command.join_consumer_group)
            case "leave_consumer_group":
                return groups.leave(state, context, command.leave_consumer_group)
            case "forget_client":
                return groups.forget_client(state, context, command.forget_client)
            case "complete_revocation":
                return groups.complete_revocation(state, context, command.complete_revocation)
            case "replace_gateway":
                return timeouts.replace_gateway(state, context, command.replace_gateway)
            case "gateway_heartbeat":
                return timeouts.heartbeat(state, context, command.gateway_heartbeat)
            case "pulse":
                return expiry.pulse(state, context)
            case "register_node":
                return nodes.register(state, context, command.register_node)
            case "renew_node_lease":
                return nodes.renew(state, context, command.renew_node_lease)
            case "drain_node":
                return nodes.drain(state, context, command.drain_node)
            case "remove_node":
                return nodes.remove(state, context, command.remove_node)
            case "place_partition":
                return placement.place(state, context, command.place_partition)
            case "rebalance_topic":
                return placement.rebalance(state, context, command.rebalance_topic)
            case "complete_placements":
                return placement.complete(state, command.complete_placements)
            case "commit_transaction":
                return transactions.commit(state, context, command.commit_transaction)
            case "abort_transaction":
                return transactions.abort(state, context, command.abort_transaction)
            case "publications_applied":
                return transactions.applied(state, command.publications_applied)
            case "pin_reader":
                return pins.pin(state, context, command.pin_reader)
            case "unpin_reader":
                return pins.unpin(state, context, command.unpin_reader)
            case "delete_transaction":
                return transactions.delete(state, command.delete_transaction)
            case None:
                raise UnknownCommandError(f"the command at op {context.op} is not known to this release")
            case unknown:
                assert_never(unknown)
