"""Release that introduced each command, for the release gate: no replica receives a command that it may not know.

Replicas are upgraded one by one. A command is accepted when all of them are known to run the release that introduced
it, or a later one.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.unknown_fields import UnknownFieldSet

from headrace_proto.metadata.v1 import Command

COMMANDS: Final = {
    "0.1.0": (
        "create_stream",
        "update_stream",
        "delete_stream",
        "purge_stream",
        "create_topic",
        "update_topic",
        "delete_topic",
        "purge_topic",
        "set_topic_quota",
        "create_partitions",
        "delete_partitions",
        "create_user",
        "update_user",
        "delete_user",
        "update_permissions",
        "change_password",
        "set_user_quota",
        "create_access_token",
        "delete_access_token",
        "delete_expired_access_tokens",
        "revoke_login",
        "create_consumer_group",
        "delete_consumer_group",
        "join_consumer_group",
        "leave_consumer_group",
        "forget_client",
        "complete_revocation",
        "replace_gateway",
        "gateway_heartbeat",
        "pulse",
        "register_node",
        "renew_node_lease",
        "drain_node",
        "remove_node",
        "place_partition",
        "rebalance_topic",
        "complete_placements",
        "commit_transaction",
        "abort_transaction",
        "publications_applied",
        "pin_reader",
        "unpin_reader",
        "delete_transaction",
    ),
}
"""Commands introduced by each release. A command with a new field that changes its effect counts as a new command."""


def packed(release: str) -> int:
    """Return a release as encoded in frames and data directories: ``major << 16 | minor << 8 | patch``."""
    major, minor, patch = (int(number) for number in release.split("."))
    return major << 16 | minor << 8 | patch


_SINCE: Final = {name: packed(release) for release, names in COMMANDS.items() for name in names}


def since(command: Command) -> int | None:
    """Return the packed release that introduced a command; ``None`` if this release does not know the command."""
    name = command.WhichOneof("operation")
    return None if name is None else _SINCE[name]


def is_of_a_later_release(command: Command) -> bool:
    """Return whether a command unknown to this release has any content."""
    return command.WhichOneof("operation") is None and len(UnknownFieldSet(command)) > 0
