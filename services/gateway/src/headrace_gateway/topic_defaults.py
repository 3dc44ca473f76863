"""What "server default" means in commands on topics.

It is resolved before the command is ordered: a topic keeps what it was given when the configuration changes later, and
no server has to ask another one what its defaults are.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace_gateway.topic_durability import TopicDurability, durability_of
from headrace_proto.catalog.v1 import DURABILITY_UNSPECIFIED
from headrace_proto.errors import Status
from headrace_proto.limits import PARTITIONS_PER_COMMAND_MAX
from headrace_proto.metadata.v1 import CreateTopic, UpdateTopic
from headrace_proto.well_known import NEVER_EXPIRES, SERVER_DEFAULT, UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """The settings of this server that commands on topics refer to.

    Attributes:
        message_expiry_micros: 2^64-1 for never.
        max_size_bytes: 2^64-1 for unlimited.
        segment_size_bytes: No topic may be created that is limited to less.
        durability: Rules by name, the first that matches decides.
    """

    message_expiry_micros: int = NEVER_EXPIRES
    max_size_bytes: int = UNLIMITED
    segment_size_bytes: int
    durability: tuple[TopicDurability, ...] = ()

    def refusal_of(self, command: CreateTopic) -> Status:
        """Return why a topic cannot be created with these settings: 1019, its explicit size is too small; else 0."""
        if command.partitions_count > PARTITIONS_PER_COMMAND_MAX:
            # Comes first, also for whoever asks for both.
            return Status.TOO_MANY_PARTITIONS
        if command.max_size_bytes != SERVER_DEFAULT and command.max_size_bytes < self.segment_size_bytes:
            return Status.INVALID_TOPIC_SIZE
        return Status.OK

    def resolve_durability(self, command: CreateTopic, stream_name: str) -> None:
        """Give a new topic of this stream the durability that the rules have for its name, unless it asks for one."""
        if command.durability == DURABILITY_UNSPECIFIED:
            command.durability = durability_of(self.durability, stream_name, command.name)

    def resolve_update(self, command: UpdateTopic) -> None:
        """Replace the server defaults of an update, and note which were asked for: clients are answered with these."""
        command.message_expiry_is_default = command.message_expiry_micros == SERVER_DEFAULT
        command.max_size_is_default = command.max_size_bytes == SERVER_DEFAULT
        self.resolve(command)

    def resolve(self, command: CreateTopic | UpdateTopic) -> None:
        """Replace every server default of a command by what it stands for."""
        if command.message_expiry_micros == SERVER_DEFAULT:
            command.message_expiry_micros = self.message_expiry_micros
        if command.max_size_bytes == SERVER_DEFAULT:
            command.max_size_bytes = self.max_size_bytes
        if command.replication_factor == SERVER_DEFAULT:
            command.replication_factor = 1
