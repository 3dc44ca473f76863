from importlib.metadata import version

from fake_native import FakeNative
from metadata_commands import create_stream

from headrace_metadata import releases
from headrace_metadata.replica import Replica, RequestId
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command

LATER = b"\xfa\x7f\x00"  # Field 2047, which no release has: an empty message.


def test_every_command_has_a_release_and_none_a_later_one_than_this():
    listed = [name for names in releases.COMMANDS.values() for name in names]
    fields = Command.DESCRIPTOR.oneofs_by_name["operation"].fields
    assert sorted(listed) == sorted(field.name for field in fields)
    own = releases.packed(version("headrace"))
    assert all(releases.packed(release) <= own for release in releases.COMMANDS)
    assert all(release.endswith(".0") for release in releases.COMMANDS), "patches bring no commands"


def test_releases_are_packed_as_in_directories():
    assert releases.packed("1.20.3") == 1 << 16 | 20 << 8 | 3
    assert releases.since(create_stream("s")) == releases.packed("0.1.0")
    assert releases.since(Command()) is None


class Gate(FakeNative):
    """Records the release of each command, and refuses all of them as not yet in force."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def propose_many(self, commands, since):
        self.asked += since
        tickets = list(range(self.tickets + 1, self.tickets + 1 + len(commands)))
        self.tickets += len(commands)
        for ticket in tickets:
            self.emit("refused", ticket, "release", -1)
        return tickets

    def request_many(self, requests):
        return self.propose_many([None] * len(requests), [since for *_, since, _ in requests])


async def test_a_command_of_a_release_that_is_not_in_force_is_refused_by_name():
    native = Gate()
    async with await Replica.open(native) as replica:
        reply = await replica.propose(create_stream("s"))
        assert reply.status == Status.FEATURE_UNAVAILABLE
        reply = await replica.request(RequestId(1, 1, 1), create_stream("s"))
        assert reply.status == Status.FEATURE_UNAVAILABLE
        assert native.asked == [releases.packed("0.1.0")] * 2


async def test_a_command_of_a_later_release_is_distinguished_from_none():
    native = Gate()
    async with await Replica.open(native) as replica:
        assert (await replica.propose(Command())).status == Status.INVALID_COMMAND
        later = Command.FromString(LATER)
        assert (await replica.propose(later)).status == Status.FEATURE_UNAVAILABLE
        assert (await replica.request(RequestId(1, 1, 1), later)).status == Status.FEATURE_UNAVAILABLE
        assert native.asked == []
