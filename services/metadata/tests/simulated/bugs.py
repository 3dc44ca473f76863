"""Machines with deliberate bugs, which the simulation must detect."""

import time

from headrace_metadata.state_machine import StateMachine
from headrace_metadata.state_machine.context import CommandContext
from headrace_metadata.state_machine.groups.members import GroupChange
from headrace_metadata.state_machine.machine import Applied
from headrace_metadata.state_machine.transactions.stages import place_of
from headrace_proto.catalog.v1 import Delta, Update


class _Double(StateMachine):
    def fork(self):
        other = type(self)()
        other.op, other.timestamp_micros, other.version = self.op, self.timestamp_micros, self.version
        other.state = self.state.copy()
        return other


class SetOrder(_Double):
    """Emits the changes of one command in the order of a set. State and replies are right."""

    def apply(self, op, timestamp_micros, command):
        applied = super().apply(op, timestamp_micros, command)
        if applied.update is None:
            return applied
        changes = {delta.SerializeToString(deterministic=True) for delta in applied.update.deltas}
        deltas = [Delta.FromString(change) for change in changes]
        return Applied(applied.reply, Update(version=applied.update.version, deltas=deltas))


class WallClock(_Double):
    """Answers with the time of a wall clock. State and updates are right."""

    def apply(self, op, timestamp_micros, command):
        applied = super().apply(op, timestamp_micros, command)
        if applied.reply.HasField("user"):
            applied.reply.user.created_at_micros = time.time_ns() // 1_000
        return applied


class ForgetfulSnapshot(_Double):
    """Omits the key of the next group from its snapshots: wrong only after a restart, and not at once."""

    def snapshot(self):
        snapshot = super().snapshot()
        snapshot.ClearField("next_group_key")
        return snapshot


class Hasty(_Double):
    """Moves a partition while its owner still processes it. All replicas agree."""

    def apply(self, op, timestamp_micros, command):
        applied = super().apply(op, timestamp_micros, command)
        moving = self.state.groups.revoking_groups()
        if applied.update is None or not moving:
            return applied
        context = CommandContext(op=op, timestamp_micros=timestamp_micros, actor_user_id=command.actor_user_id)
        for group in moving:
            change = GroupChange(group)
            for partition_id in sorted(change.assignment.revocations):
                change.assignment.move(partition_id)
            self.state.groups.put_group(change.ended(context))
        deltas = [*applied.update.deltas, *self.state.changes]
        self.state.changes.clear()
        return Applied(applied.reply, Update(version=applied.update.version, deltas=deltas))


class _Dropping(_Double):
    """Removes committed stages that no partition has reported as appended. All replicas agree."""

    def apply(self, op, timestamp_micros, command):
        applied = super().apply(op, timestamp_micros, command)
        if applied.update is None:
            return applied
        for publication in list(self.state.stages.publications()):
            if self.drops(publication, command):
                self.state.stages.remove_publications(place_of(publication), publication.number)
        deltas = [*applied.update.deltas, *self.state.changes]
        self.state.changes.clear()
        return Applied(applied.reply, Update(version=applied.update.version, deltas=deltas))


class Careless(_Dropping):
    """Treats committed stages as appended as soon as time passes."""

    def drops(self, publication, command):
        return command.HasField("pulse")


class Generous(_Dropping):
    """Treats all committed stages of a topic as appended when one of its partitions reports some."""

    def drops(self, publication, command):
        topic = (publication.stream_id, publication.topic_id)
        return topic in [(done.stream_id, done.topic_id) for done in command.publications_applied.partitions]


BUGS = {
    "set-order": SetOrder,
    "wall-clock": WallClock,
    "forgetful-snapshot": ForgetfulSnapshot,
    "hasty": Hasty,
    "careless": Careless,
    "generous": Generous,
}
