"""What time does to consumer groups: members are lost with their gateway, and revocations end.

There is no clock here. A gateway says that it lives, somebody says that time passes, and the timestamps of these
operations decide.
"""

from __future__ import annotations

from headrace_metadata.state_machine import groups_members
from headrace_metadata.state_machine.groups_members import Dealing
from headrace_metadata.state_machine.operation import Operation
from headrace_metadata.state_machine.state import State
from headrace_proto.metadata.v1 import GatewayHeartbeat, GatewayRecord, ReplaceGateway, Reply


def replace_gateway(state: State, operation: Operation, command: ReplaceGateway) -> Reply:
    """End the memberships at earlier runs of a gateway: their connections are gone."""
    for record in state.groups.gateways():
        if record.gateway.name == command.name and record.gateway.id != command.gateway_id:
            _lose_gateway(state, operation, record)
    return Reply()


def heartbeat(state: State, operation: Operation, command: GatewayHeartbeat) -> Reply:
    """Note that a gateway lives. One that has no members, any more or at all, is not remembered."""
    record = state.groups.find_gateway(command.gateway_id)
    if record is not None:
        state.groups.put_gateway(GatewayRecord(gateway=record.gateway, heard_at_micros=operation.timestamp_micros))
    return Reply()


def pulse(state: State, operation: Operation) -> None:
    """Lose the gateways that are silent by now, and end the revocations that are over."""
    for record in state.groups.gateways():
        if silent_at_micros(record) <= operation.timestamp_micros:
            _lose_gateway(state, operation, record)
    for group in state.groups.revoking_groups():
        dealing = Dealing(group)
        over = [
            partition_id
            for partition_id, revocation in sorted(dealing.assignment.revocations.items())
            if revocation.deadline_micros <= operation.timestamp_micros
        ]
        for partition_id in over:
            dealing.assignment.move(partition_id)
        if over:
            state.groups.put_group(dealing.ended(operation))


def is_pulse_due(state: State, now_micros: int) -> bool:
    """Say whether a pulse at this time would end anything."""
    return any(silent_at_micros(record) <= now_micros for record in state.groups.gateways()) or any(
        revocation.deadline_micros <= now_micros
        for group in state.groups.revoking_groups()
        for member in group.members
        for revocation in member.revocations
    )


def is_partition_awaited(state: State, gateway_id: int, client_id: int) -> bool:
    """Say whether a partition is to move to this connection."""
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
    """Return when a gateway counts as lost unless it is heard from before."""
    return record.heard_at_micros + record.gateway.timeout_micros


def _lose_gateway(state: State, operation: Operation, record: GatewayRecord) -> None:
    for group in state.groups.groups_of_gateway(record.gateway.id):
        gone = [member for member in group.members if member.gateway_id == record.gateway.id]
        groups_members.remove(state, operation, group, gone)
