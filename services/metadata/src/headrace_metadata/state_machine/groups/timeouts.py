"""Timeouts of consumer groups: members are lost with their gateway, and revocations expire.

The state machine has no clock. The timestamps of heartbeats and `Pulse` commands decide.
"""

from __future__ import annotations

from headrace_metadata.state_machine.context import CommandContext
from headrace_metadata.state_machine.groups import members
from headrace_metadata.state_machine.groups.members import GroupChange
from headrace_metadata.state_machine.state import State
from headrace_proto.metadata.v1 import Command, GatewayHeartbeat, GatewayRecord, ReplaceGateway, Reply
from headrace_proto.well_known import ROOT_USER_ID


def replace_gateway(state: State, context: CommandContext, command: ReplaceGateway) -> Reply:
    """Remove the members of earlier runs of a gateway: their connections are closed."""
    for record in state.groups.gateways():
        if record.gateway.name == command.name and record.gateway.id != command.gateway_id:
            _lose_gateway(state, context, record)
    return Reply()


def heartbeat(state: State, context: CommandContext, command: GatewayHeartbeat) -> Reply:
    """Record the heartbeat of a gateway. A gateway without members is not recorded."""
    record = state.groups.find_gateway(command.gateway_id)
    if record is not None:
        state.groups.put_gateway(GatewayRecord(gateway=record.gateway, heard_at_micros=context.timestamp_micros))
    return Reply()


def pulse(state: State, context: CommandContext) -> None:
    """Remove silent gateways with their members, and end expired revocations."""
    for record in state.groups.gateways():
        if silent_at_micros(record) <= context.timestamp_micros:
            _lose_gateway(state, context, record)
    for group in state.groups.revoking_groups():
        change = GroupChange(group)
        over = [
            partition_id
            for partition_id, revocation in sorted(change.assignment.revocations.items())
            if revocation.deadline_micros <= context.timestamp_micros
        ]
        for partition_id in over:
            change.assignment.move(partition_id)
        if over:
            state.groups.put_group(change.ended(context))


def is_pulse_due(state: State, now_micros: int) -> bool:
    """Return whether a `Pulse` command at this time would have an effect."""
    return any(silent_at_micros(record) <= now_micros for record in state.groups.gateways()) or any(
        revocation.deadline_micros <= now_micros
        for group in state.groups.revoking_groups()
        for member in group.members
        for revocation in member.revocations
    )


def heartbeats(state: State) -> list[Command]:
    """Return a heartbeat for each gateway that has members."""
    return [
        Command(actor_user_id=ROOT_USER_ID, gateway_heartbeat=GatewayHeartbeat(gateway_id=record.gateway.id))
        for record in state.groups.gateways()
    ]


def is_partition_awaited(state: State, gateway_id: int, client_id: int) -> bool:
    """Return whether a partition is about to move to this connection."""
    for group in state.groups.groups_of_client(gateway_id, client_id):
        awaiting = {revocation.to_member_id for member in group.members for revocation in member.revocations}
        if any(
            member.id in awaiting
            for member in group.members
            if (member.gateway_id, member.client_id) == (gateway_id, client_id)
        ):
            return True
    return False


def silent_at_micros(record: GatewayRecord) -> int:
    """Return the time at which a gateway is lost without a further heartbeat."""
    return record.heard_at_micros + record.gateway.timeout_micros


def _lose_gateway(state: State, context: CommandContext, record: GatewayRecord) -> None:
    for group in state.groups.groups_of_gateway(record.gateway.id):
        gone = [member for member in group.members if member.gateway_id == record.gateway.id]
        members.remove(state, context, group, gone)
