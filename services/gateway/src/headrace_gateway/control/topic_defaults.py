"""Resolution of "server default" in commands on topics.

Defaults are resolved before the command is ordered: a later change of the configuration does not affect existing
topics, and no server needs the defaults of another one.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace_gateway.control.topic_durability import TopicDurability, durability_of
from headrace_proto.catalog.v1 import DURABILITY_UNSPECIFIED
from headrace_proto.errors import Status
from headrace_proto.limits import PARTITIONS_PER_COMMAND_MAX
from headrace_proto.metadata.v1 import CreateTopic, UpdateTopic
from headrace_proto.well_known import NEVER_EXPIRES, SERVER_DEFAULT, UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """Settings of this server that commands on topics refer to.

    Attributes:
        message_expiry_micros: Age at which messages expire; 2^64-1: never.
        max_size_bytes: Maximum size of a topic; 2^64-1: unlimited.
        segment_size_bytes: Minimum for the size limit of a new topic.
        durability: Rules by name; the first match decides.
    """

    message_expiry_micros: int = NEVER_EXPIRES
    max_size_bytes: int = UNLIMITED
    segment_size_bytes: int
    durability: tuple[TopicDurability, ...] = ()

    def refusal_of(self, command: CreateTopic) -> Status:
        """Return the status that refuses a new topic: 1019 if its explicit size limit is too small; otherwise 0."""
        if command.partitions_count > PARTITIONS_PER_COMMAND_MAX:
            # Checked first, also if the request has both errors.
            return Status.TOO_MANY_PARTITIONS
        if command.max_size_bytes != SERVER_DEFAULT and command.max_size_bytes < self.segment_size_bytes:
            return Status.INVALID_TOPIC_SIZE
        return Status.OK

    def resolve_durability(self, command: CreateTopic, stream_name: str) -> None:
        """Set the durability of a new topic of this stream by the rules, unless the command sets it explicitly."""
        if command.durability == DURABILITY_UNSPECIFIED:
            command.durability = durability_of(self.durability, stream_name, command.name)

    def resolve_update(self, command: UpdateTopic) -> None:
        """Replace the server defaults of an update, and record which were used: clients see them in the answer."""
        command.message_expiry_is_default = command.message_expiry_micros == SERVER_DEFAULT
        command.max_size_is_default = command.max_size_bytes == SERVER_DEFAULT
        self.resolve(command)

    def resolve(self, command: CreateTopic | UpdateTopic) -> None:
        """Replace every server default of a command by its value."""
        if command.message_expiry_micros == SERVER_DEFAULT:
            command.message_expiry_micros = self.message_expiry_micros
        if command.max_size_bytes == SERVER_DEFAULT:
            command.max_size_bytes = self.max_size_bytes
        if command.replication_factor == SERVER_DEFAULT:
            command.replication_factor = 1
