"""Commands on partition nodes, and expiry of their leases.

Statuses in the order in which they are checked: register 4, 3, 20103; renew 20100, 20101; drain 20100; remove 20100,
20102.

The state machine has no clock. The timestamps of lease renewals and `Pulse` commands decide. A silent node keeps its
replicas: a paused process is no reason to give up the data on its disks. Moving replicas is a command.
"""

from __future__ import annotations

from headrace_metadata.state_machine.context import CommandContext, Refused
from headrace_metadata.state_machine.names import check_name
from headrace_metadata.state_machine.placement import placement
from headrace_metadata.state_machine.state import State
from headrace_proto.catalog.v1 import NODE_STATUS_LIVE, NODE_STATUS_SILENT, Node, NodeStatus
from headrace_proto.errors import Status
from headrace_proto.limits import NODE_SHARDS, NODES_MAX
from headrace_proto.metadata.v1 import Command, DrainNode, NodeLease, RegisterNode, RemoveNode, RenewNodeLease, Reply
from headrace_proto.well_known import ROOT_USER_ID


def register(state: State, context: CommandContext, command: RegisterNode) -> Reply:
    """Register a run of a node. The node is identified by its name; a draining node stays draining."""
    for text in (command.name, command.binary_address, command.grpc_address):
        check_name(text)
    if command.incarnation == 0 or command.lease_micros == 0 or command.shards not in NODE_SHARDS:
        raise Refused(Status.INVALID_COMMAND)
    known = state.nodes.node_named(command.name)
    if known is None and state.nodes.count() >= NODES_MAX:
        raise Refused(Status.TOO_MANY_NODES)

    if known is None:
        state.nodes.last_id += 1
    node = Node(
        id=known.id if known is not None else state.nodes.last_id,
        name=command.name,
        incarnation=command.incarnation,
        binary_address=command.binary_address,
        grpc_address=command.grpc_address,
        shards=command.shards,
        registered_at_micros=known.registered_at_micros if known is not None else context.timestamp_micros,
        status=NODE_STATUS_LIVE,
        is_draining=known is not None and known.is_draining,
    )
    if node != known:
        state.nodes.put_node(node)
    state.nodes.put_lease(
        NodeLease(node_id=node.id, lease_micros=command.lease_micros, heard_at_micros=context.timestamp_micros)
    )
    placement.fill(state, context)
    return Reply(node=node)


def renew(state: State, context: CommandContext, command: RenewNodeLease) -> Reply:
    """Renew the lease of a node."""
    node = state.nodes.node(command.node_id)
    if node.incarnation != command.incarnation:
        raise Refused(Status.NODE_REPLACED)

    state.nodes.put_lease(
        NodeLease(
            node_id=node.id,
            lease_micros=state.nodes.lease(node.id).lease_micros,
            heard_at_micros=context.timestamp_micros,
        )
    )
    if node.status != NODE_STATUS_LIVE:
        state.nodes.put_node(_with_status(node, NODE_STATUS_LIVE))
        placement.fill(state, context)
    return Reply()


def drain(state: State, context: CommandContext, command: DrainNode) -> Reply:
    """Exclude a node from new placements, or include it again. Its replicas stay until they are moved."""
    node = state.nodes.node(command.node_id)
    if node.is_draining != command.is_draining:
        changed = Node()
        changed.CopyFrom(node)
        changed.is_draining = command.is_draining
        state.nodes.put_node(changed)
        placement.fill(state, context)
    return Reply()


def remove(state: State, context: CommandContext, command: RemoveNode) -> Reply:
    """Remove a node. Its replicas are given up as lost and placed on other nodes."""
    node = state.nodes.node(command.node_id)
    if not command.with_replicas and placement.is_named(state, node.id):
        raise Refused(Status.NODE_IN_USE)

    # Update the placements first: at all times they name existing nodes only.
    placement.forget_node(state, context, node.id)
    state.nodes.remove_node(node)
    return Reply()


def pulse(state: State, context: CommandContext) -> None:
    """Mark the nodes whose lease has expired."""
    for lease in list(state.nodes.leases()):
        node = state.nodes.node(lease.node_id)
        if node.status == NODE_STATUS_LIVE and silent_at_micros(lease) <= context.timestamp_micros:
            state.nodes.put_node(_with_status(node, NODE_STATUS_SILENT))


def is_pulse_due(state: State, now_micros: int) -> bool:
    """Return whether a `Pulse` command at this time would find an expired lease."""
    return any(
        silent_at_micros(lease) <= now_micros and state.nodes.node(lease.node_id).status == NODE_STATUS_LIVE
        for lease in state.nodes.leases()
    )


def renewals(state: State) -> list[Command]:
    """Return a renewal for the lease of each live node; a silent one has to be heard before it counts as live."""
    return [
        Command(
            actor_user_id=ROOT_USER_ID,
            renew_node_lease=RenewNodeLease(node_id=node.id, incarnation=node.incarnation),
        )
        for node in state.nodes.nodes()
        if node.status == NODE_STATUS_LIVE
    ]


def silent_at_micros(lease: NodeLease) -> int:
    """Return the time at which a node counts as silent without a further renewal."""
    return lease.heard_at_micros + lease.lease_micros


def _with_status(node: Node, status: NodeStatus.ValueType) -> Node:
    changed = Node()
    changed.CopyFrom(node)
    changed.status = status
    return changed
