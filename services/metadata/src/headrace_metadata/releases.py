"""Since which release there is each command, for the release gate: no replica is given one that it may not know.

Replicas are upgraded one by one. A command is taken when all of them are known to run the release that brought it, or a
later one.
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
        "create_partitions",
        "delete_partitions",
        "create_user",
        "update_user",
        "delete_user",
        "update_permissions",
        "change_password",
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
"""The commands that each release has brought. One that gets a field which changes what it does is a new command."""


def packed(release: str) -> int:
    """Return a release as frames and folders have it: ``major << 16 | minor << 8 | patch``."""
    major, minor, patch = (int(number) for number in release.split("."))
    return major << 16 | minor << 8 | patch


_SINCE: Final = {name: packed(release) for release, names in COMMANDS.items() for name in names}


def since(command: Command) -> int | None:
    """Return the packed release since which there is a command; ``None`` when it is none that this release knows."""
    name = command.WhichOneof("operation")
    return None if name is None else _SINCE[name]


def is_of_a_later_release(command: Command) -> bool:
    """Return whether a command that this release does not know holds something all the same."""
    return command.WhichOneof("operation") is None and len(UnknownFieldSet(command)) > 0
