"""Commands on consumer groups, and the effects of topic changes on groups.

Statuses in the order in which they are checked, which clients of the binary protocol rely on: create 4, 1009, 2010,
5004, 20002; delete and join 1009, 2010, 5000; leave 1009, 2010, 5000, 5006.
"""

from __future__ import annotations

from headrace_metadata.state_machine.context import CommandContext, Refused
from headrace_metadata.state_machine.groups import members
from headrace_metadata.state_machine.groups.members import GroupChange
from headrace_metadata.state_machine.names import check_name
from headrace_metadata.state_machine.state import State
from headrace_proto.catalog.v1 import ConsumerGroup, GroupMember, Topic
from headrace_proto.errors import Status
from headrace_proto.limits import GROUP_KEY_MAX, GROUPS_PER_TOPIC_MAX
from headrace_proto.metadata.v1 import (
    CompleteRevocation,
    CreateConsumerGroup,
    DeleteConsumerGroup,
    ForgetClient,
    GatewayRecord,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    Reply,
)


def create(state: State, context: CommandContext, command: CreateConsumerGroup) -> Reply:
    """Create a group without members, with the smallest free id of its topic."""
    check_name(command.name)
    topic = state.catalog.topic(command.stream_id, command.topic_id)
    if state.groups.is_name_taken(topic.stream_id, topic.id, command.name):
        raise Refused(Status.CONSUMER_GROUP_NAME_ALREADY_EXISTS)
    owner_user_id = context.actor_user_id if command.is_owned else None
    if state.groups.count_of(topic.stream_id, topic.id) >= GROUPS_PER_TOPIC_MAX or (
        owner_user_id is not None
        and state.groups.count_of_owner(topic.stream_id, topic.id, owner_user_id) >= GROUPS_PER_TOPIC_MAX // 2
    ):
        raise Refused(Status.TOO_MANY_CONSUMER_GROUPS)
    if state.groups.next_key > GROUP_KEY_MAX:
        raise Refused(Status.CANNOT_CREATE_CONSUMER_GROUP_INFO)

    group = ConsumerGroup(
        stream_id=topic.stream_id,
        topic_id=topic.id,
        id=state.groups.unused_id(topic.stream_id, topic.id),
        name=command.name,
        created_at_micros=context.timestamp_micros,
        key=state.groups.next_key,
        partitions_count=len(topic.partitions),
        revocation_timeout_micros=command.revocation_timeout_micros,
        owner_user_id=owner_user_id,
    )
    state.groups.next_key += 1
    state.groups.put_group(group)
    return Reply(consumer_group=group)


def delete(state: State, command: DeleteConsumerGroup) -> Reply:
    """Delete a group with its members. Partitions delete its offsets when the group is gone from the catalog."""
    state.groups.remove_group(_group(state, command))
    return Reply()


def join(state: State, context: CommandContext, command: JoinConsumerGroup) -> Reply:
    """Make a connection a member; no change if it is one already."""
    group = _group(state, command)
    gateway = command.gateway
    if _member(group, gateway.id, command.client_id) is None:
        change = GroupChange(group)
        change.add(
            GroupMember(
                id=max((member.id for member in group.members), default=-1) + 1,
                gateway_id=gateway.id,
                client_id=command.client_id,
                user_id=context.actor_user_id,
                incarnation=context.op,
            )
        )
        state.groups.put_group(change.ended(context))
    state.groups.put_gateway(GatewayRecord(gateway=gateway, heard_at_micros=context.timestamp_micros))
    return Reply()


def leave(state: State, context: CommandContext, command: LeaveConsumerGroup) -> Reply:
    """End a membership. The partitions of the member move to the others at once."""
    group = _group(state, command)
    member = _member(group, command.gateway_id, command.client_id)
    if member is None:
        raise Refused(Status.CONSUMER_GROUP_MEMBER_NOT_FOUND)

    members.remove(state, context, group, [member])
    return Reply()


def forget_client(state: State, context: CommandContext, command: ForgetClient) -> Reply:
    """End all memberships of a connection; it may have none."""
    for group in state.groups.groups_of_client(command.gateway_id, command.client_id):
        member = _member(group, command.gateway_id, command.client_id)
        members.remove(state, context, group, [member] if member is not None else [])
    return Reply()


def forget_user(state: State, context: CommandContext, user_id: int) -> None:
    """End all memberships of a user."""
    for group in list(state.groups.groups()):
        gone = [member for member in group.members if member.user_id == user_id]
        if gone:
            members.remove(state, context, group, gone)


def resize(state: State, context: CommandContext, topic: Topic) -> None:
    """Assign new partitions of a topic, and drop removed ones."""
    for group in list(state.groups.groups_of(topic.stream_id, topic.id)):
        change = GroupChange(group)
        change.resize(len(topic.partitions))
        state.groups.put_group(change.ended(context))


def complete_revocation(state: State, context: CommandContext, command: CompleteRevocation) -> Reply:
    """Move partitions whose owners have processed all messages they were sent.

    Entries of revocations that have ended meanwhile are ignored, because the proposer cannot know that.
    """
    group = state.groups.find_group((command.stream_id, command.topic_id, command.group_id))
    if group is None or group.key != command.group_key:
        return Reply()
    change = GroupChange(group)
    is_changed = False
    for completed in command.revocations:
        revocation = change.assignment.revocations.get(completed.partition_id)
        if revocation is not None and revocation.incarnation == completed.incarnation:
            change.assignment.move(completed.partition_id)
            is_changed = True
    if is_changed:
        state.groups.put_group(change.ended(context))
    return Reply()


def _group(state: State, command: DeleteConsumerGroup | JoinConsumerGroup | LeaveConsumerGroup) -> ConsumerGroup:
    topic = state.catalog.topic(command.stream_id, command.topic_id)
    return state.groups.group(topic.stream_id, topic.id, command.group_id)


def _member(group: ConsumerGroup, gateway_id: int, client_id: int) -> GroupMember | None:
    wanted = (gateway_id, client_id)
    return next((member for member in group.members if (member.gateway_id, member.client_id) == wanted), None)
