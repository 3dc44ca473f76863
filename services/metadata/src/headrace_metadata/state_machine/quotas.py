"""Commands on the quotas of users and topics.

Statuses in the order in which they are checked: of a user 3, 20, 49; of a topic 3, 1009, 2010.

Proposers check the rights: `users manage` for a user, so that no user raises its own quota, and
`topic manage` for a topic.
"""

from __future__ import annotations

from headrace_metadata.state_machine.context import Refused
from headrace_metadata.state_machine.state import State
from headrace_proto.catalog.v1 import Quota, Topic, User
from headrace_proto.errors import Status
from headrace_proto.limits import QUOTA_RATE_BYTES_MIN
from headrace_proto.metadata.v1 import Reply, SetTopicQuota, SetUserQuota
from headrace_proto.well_known import ROOT_USER_ID


def set_of_user(state: State, command: SetUserQuota) -> Reply:
    """Replace the quota of a user. Root has none: it has to get in when others have used everything up."""
    _check_rates(command.quota)
    # Topics have no owner, so a user holds no bytes.
    if command.quota.held_bytes > 0:
        raise Refused(Status.INVALID_COMMAND)
    user = state.accounts.user(command.user_id)
    if user.id == ROOT_USER_ID:
        raise Refused(Status.CANNOT_CHANGE_PERMISSIONS)

    updated = User()
    updated.CopyFrom(user)
    _replace(updated, command.quota)
    if updated != user:
        state.accounts.put_user(updated)
    return Reply()


def set_of_topic(state: State, command: SetTopicQuota) -> Reply:
    """Replace the quota of a topic, which all of its users share."""
    _check_rates(command.quota)
    if command.quota.connections > 0:
        raise Refused(Status.INVALID_COMMAND)
    topic = state.catalog.topic(command.stream_id, command.topic_id)

    updated = Topic()
    updated.CopyFrom(topic)
    _replace(updated, command.quota)
    if updated != topic:
        state.catalog.put_topic(updated)
    return Reply()


def _check_rates(quota: Quota) -> None:
    for rate in (quota.sent_bytes_per_second, quota.read_bytes_per_second):
        if 0 < rate < QUOTA_RATE_BYTES_MIN:
            raise Refused(Status.INVALID_COMMAND)


def _replace(record: User | Topic, quota: Quota) -> None:
    # A quota without limits is none, so that each state has one encoding.
    if quota == Quota():
        record.ClearField("quota")
    else:
        record.quota.CopyFrom(quota)
