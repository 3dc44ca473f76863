"""Batches of a redrive as transactions: each letter is sent once, whatever is killed.

The last commit under a name in the stream of the dead-letter topic says which letters were sent, and has the letters
themselves, so that both count together. Letters for other streams are committed there first. What such a batch consists
of is pinned at the server meanwhile, so that the next run ends a batch that was cut off as it was begun. Every reader
of the stream may pin something under that name, so only a batch whose digest was committed before is believed.
"""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from headrace.cli.errors import CommandError
from headrace.cli.servers.resolving import Identifier, TopicPath
from headrace.cli.servers.target import Target
from headrace.connection import Credentials, Ticket, Token
from headrace.sdk.client import Client, connect
from headrace.sdk.direct import Outgoing
from headrace.sdk.direct_producer import DirectProducer
from headrace.sdk.errors import HeadraceError
from headrace.sdk.stages import Stage
from headrace_core import Client as Connection
from headrace_core import ServerError, decode_pinned_reader, encode_pin_reader, encode_unpin_reader
from headrace_proto.commands import CommandCode
from headrace_proto.errors import Status

_NEEDED: Final = frozenset(
    {
        CommandCode.STAGE_MESSAGES,
        CommandCode.COMMIT_TRANSACTION,
        CommandCode.GET_TRANSACTION,
        CommandCode.WATCH_PARTITIONS,
        CommandCode.PIN_READER,
    }
)
_WATCH_SECONDS: Final = 10.0

Letters = Mapping[tuple[Identifier, Identifier], Sequence[Outgoing]]
"""Messages by stream and topic."""


class Intent(msgspec.Struct):
    """Letters of one batch, and where they go."""

    batch: str
    """Identity of the batch."""
    start: int
    """Offset of its first letter."""
    end: int
    """Offset after its last one."""
    destinations: list[tuple[Identifier, Identifier]]
    """Streams and topics that letters go to."""
    ways: dict[int, int]
    """Number of the destination by offset; other letters stay."""


def _digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


def has_transactions(client: Connection) -> bool:
    """Return whether the server has what a ledger needs."""
    try:
        return set(client.capabilities().codes) >= _NEEDED
    except ServerError as error:
        if error.name != "InvalidCommand":
            raise
        return False


def generations(target: Target, path: TopicPath, partitions: Sequence[int]) -> dict[int, str]:
    """Return the log generation of partitions: offsets of another one mean other letters.

    Raises:
        CommandError: A partition is not served now.
    """
    found: dict[int, str] = {}
    with target.connected() as client:
        watcher = client.watcher()
        try:
            watcher.add([(path.stream, path.topic, list(partitions))])
            while len(found) < len(partitions):
                reported = watcher.next(_WATCH_SECONDS)
                served = {
                    one.partition_id: f"{one.incarnation}.{one.purge_epoch}" for one in reported if not one.status
                }
                if not served:
                    raise CommandError(f"partitions of {path.name} are not served at the moment: try again")
                found |= served
        finally:
            watcher.close()
    return found


class Ledger:
    """Commits of one partition of a dead-letter topic.

    Args:
        client: Client for transactions.
        connection: Connection for what the client does not have.
        path: The dead-letter topic.
        partition: The partition.
        generation: Its log generation.
    """

    def __init__(
        self, client: Client, connection: Connection, path: TopicPath, partition: int, generation: str
    ) -> None:
        self._client = client
        self._connection = connection
        self._path = path
        self.partition = partition
        topic = "?" if path.details is None else path.details.id
        self._name = f"headrace-redrive/{topic}/{partition}/{generation}"
        # Another name than that of a dead-letter topic in the other stream.
        self._foreign_name = f"headrace-redriven/{path.stream}/{topic}/{partition}/{generation}"
        self._begun_name = f"headrace-redrive-begun/{topic}/{partition}/{generation}"
        self._run = uuid.uuid4().hex

    # ---- the position

    def position(self) -> int:
        """Return the offset to continue at; 0 if nothing is committed."""
        with self._refusals():
            last = self._client.transaction(self._path.stream, self._name)
        return 0 if last is None else last.batch_id

    def reset(self) -> None:
        """Begin with the first letter, and forget what an earlier redrive has begun."""
        with self._refusals():
            self._commit(self._path.stream, self._name, self._run, 0, [], fence=True)
        self.forget_intent()

    def take_over(self, position: int) -> int:
        """End the writing of every earlier run, and return the offset to continue at.

        Args:
            position: Offset that the plan begins at.

        Raises:
            CommandError: Another redrive is at work.
        """
        stream, name = self._path.stream, self._name
        with self._refusals():
            last = self._client.transaction(stream, name)
            if last is not None:
                position = max(position, last.batch_id)
            self._commit(stream, name, self._run, position, [], fence=last is not None)
            if (
                last is not None
                and last.query_id != self._run
                and self._was_committed(last.query_id, last.batch_id + 1)
            ):
                raise CommandError(f"another redrive of {self._path.name} is at work")
        return position

    def _was_committed(self, query: str, batch_id: int) -> bool:
        """Return whether an earlier run has committed a batch: its empty commit has no effect any more."""
        try:
            return self._commit(self._path.stream, self._name, query, batch_id, [])
        except HeadraceError as error:
            if error.code != Status.TRANSACTION_FENCED:
                raise
            return False

    def _commit(
        self, stream: Identifier, name: str, query: str, batch_id: int, stages: Sequence[Stage], *, fence: bool = False
    ) -> bool:
        """Commit; return whether it was committed before."""
        done = self._client.commit_transaction(stream, name, query, batch_id, stages, fence=fence)
        return done.already_committed

    # ---- batches for other streams

    def intent(self) -> Intent | None:
        """Return the batch that an earlier run has begun, if there is one."""
        found = self._pinned(b"")
        if found is None:
            self.forget_intent()
        return found

    def begin(self, intent: Intent) -> Intent:
        """Keep what a batch consists of; return the one that another run has begun, if there is one."""
        value = msgspec.json.encode(intent)
        with self._refusals():
            self._commit(self._path.stream, self._begun_name, _digest(value), 1, [], fence=True)
        while (found := self._pinned(value)) is None:
            # A run that was looking for one was killed, or another user has pinned something.
            self.forget_intent()
        return found

    def _pinned(self, value: bytes) -> Intent | None:
        """Pin a value unless there is one; return the batch that is pinned then, if it is one of a redrive."""
        command = encode_pin_reader(stream=self._path.stream, reader=self._name, value=value)
        try:
            pinned = decode_pinned_reader(self._connection.request(*command)).value
        except ServerError as error:
            if error.code != Status.UNAUTHORIZED:
                raise
            # A pin of another user.
            return None
        return msgspec.json.decode(pinned, type=Intent) if pinned and self._has_begun(pinned) else None

    def _has_begun(self, value: bytes) -> bool:
        """Return whether a run has committed the digest of a batch, which needs the right to send."""
        with self._refusals():
            if self._client.transaction(self._path.stream, self._begun_name) is None:
                return False
        try:
            return self._commit(self._path.stream, self._begun_name, _digest(value), 1, [])
        except HeadraceError as error:
            if error.code != Status.TRANSACTION_FENCED:
                raise
            return False

    def forget_intent(self) -> None:
        """Forget the batch that was begun: it is complete, or was not begun by a redrive."""
        try:
            self._connection.request(*encode_unpin_reader(stream=self._path.stream, reader=self._name))
        except ServerError as error:
            if error.code != Status.UNAUTHORIZED:
                raise
            raise CommandError(
                f"another user has pinned a reader with the name {self._name} in the stream of {self._path.name}: "
                "a user who may manage the stream can redrive all the same"
            ) from error

    def is_foreign(self, intent: Intent) -> bool:
        """Return whether letters go to another stream."""
        return any(stream != self._path.stream for stream, _ in intent.destinations)

    def is_sent(self, intent: Intent, stream: Identifier) -> bool:
        """Return whether the letters of a batch for another stream are committed.

        Raises:
            headrace.sdk.errors.NotFound: The stream does not exist any more.
        """
        last = self._client.transaction(stream, self._foreign_name)
        return last is not None and last.query_id == intent.batch

    # ---- sending

    def stage(self, producer: DirectProducer, letters: Letters) -> dict[Identifier, list[Stage]]:
        """Store letters where no reader sees them; return the stages by stream.

        Raises:
            CommandError: A topic refuses them.
        """
        staged: dict[Identifier, list[Stage]] = {}
        for (stream, topic), messages in letters.items():
            try:
                staged.setdefault(stream, []).extend(producer.stage(stream, topic, messages))
            except HeadraceError as error:
                self.discard(staged)
                raise CommandError(
                    f"{stream}/{topic} refuses letters: {error}; none of this batch was sent, and the next run goes on "
                    "with it. The user needs the permissions to send to the topic and to poll it"
                ) from error
        return staged

    def discard(self, staged: Mapping[Identifier, Sequence[Stage]]) -> None:
        """Remove stages before they expire by themselves."""
        for stream, stages in staged.items():
            with contextlib.suppress(HeadraceError):
                self._client.abort_transaction(stream, self._foreign_name, self._run, 1, stages)

    def commit_foreign(self, intent: Intent, stream: Identifier, stages: Sequence[Stage]) -> None:
        """Commit the letters of a batch for another stream."""
        with self._refusals():
            self._commit(stream, self._foreign_name, intent.batch, 1, stages, fence=True)

    def commit(self, end: int, stages: Sequence[Stage]) -> None:
        """Commit the letters of this stream, those that stay among them, with the offset to continue at.

        Raises:
            CommandError: Another redrive has begun, or the server refuses it.
        """
        with self._refusals():
            self._commit(self._path.stream, self._name, self._run, end, stages)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except HeadraceError as error:
            if error.code == Status.TRANSACTION_FENCED:
                raise CommandError(f"another redrive of {self._path.name} is at work") from error
            raise CommandError(
                f"letters of {self._path.name}: {error}; the next run goes on after those that are sent. The user "
                "needs the permissions to read the streams, and to send to their topics and poll them"
            ) from error


@contextmanager
def client_of(target: Target) -> Iterator[Client]:
    """Connect the client of the SDK for the duration of a ``with`` block.

    Raises:
        CommandError: The server does not answer.
    """
    credentials = target.credentials()
    try:
        match credentials:
            case Credentials():
                client = connect(target.address, username=credentials.username, password=credentials.password)
            case Token():
                client = connect(target.address, token=credentials.text)
            case Ticket():
                raise CommandError("a ticket is for one topic: log in as a user")
    except HeadraceError as error:
        raise CommandError(f"{target.address}: {error}") from error
    with client:
        yield client
