"""Progress of a source whose batches are transactions, as it is kept beside its state."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

import msgspec

from headrace.sdk.stages import Stage
from headrace_connectors.contract import ConnectorError
from headrace_connectors.json_errors import NOT_JSON

_VERSION: Final = 1
_NO_STATE: Final = b"null"
_Encoded = tuple[int, int, int, str, int]


class Pending(msgspec.Struct, omit_defaults=True):
    """A batch that may or may not be committed."""

    batch_id: int
    state: msgspec.Raw
    """State of the source behind this batch."""
    stages: dict[str, list[_Encoded]]
    """Stages by stream. Numbers of 128 bits are texts, since JSON has none."""
    is_committed: bool = False
    """True if it is known to be committed in the home."""

    @classmethod
    def of(cls, batch_id: int, state: bytes, stages: dict[str, list[Stage]]) -> Self:
        """Describe a batch."""
        encoded = {
            stream: [
                (one.topic_id, one.partition_id, one.incarnation, str(one.stage_id), one.messages_count)
                for one in staged
            ]
            for stream, staged in stages.items()
        }
        return cls(batch_id, msgspec.Raw(state), encoded)

    def stages_of(self, stream: str) -> list[Stage]:
        """Return the stages in a stream."""
        return [Stage(*one[:3], int(one[3]), one[4]) for one in self.stages.get(stream, ())]

    @property
    def messages_count(self) -> int:
        """Number of messages in all its stages."""
        return sum(one[4] for stages in self.stages.values() for one in stages)


class Progress(msgspec.Struct, omit_defaults=True):
    """Identity of the writer, and its last batch."""

    version: int
    source_id: str
    """Identity of the source for as long as its state exists: the writer in all streams but the home."""
    writer_id: str
    """Identity of the run that has stored this: the writer in the home."""
    batch_id: int = 0
    """Number of the last batch that is known to be committed."""
    home: str | None = None
    """Stream whose transaction decides about a batch: that of the first batch; None: there was none yet."""
    is_owner: bool = False
    """True if a batch was committed in the home."""
    pending: Pending | None = None
    """A batch whose commit may have been requested."""

    @classmethod
    def new(cls, source_id: str, writer_id: str) -> Self:
        """Begin."""
        return cls(_VERSION, source_id, writer_id)

    @classmethod
    def decode(cls, encoded: bytes) -> Self:
        """Read it.

        Raises:
            ConnectorError: It is of another version, or cannot be read.
        """
        try:
            progress = msgspec.json.decode(encoded, type=cls)
        except NOT_JSON as error:
            raise ConnectorError(
                f"the progress of the delivery cannot be read: {error}; remove the state deliberately to start over"
            ) from error
        if progress.version != _VERSION:
            raise ConnectorError(
                f"the progress of the delivery has version {progress.version}, this release reads version {_VERSION}: "
                "use the release that wrote it, or remove the state deliberately and start over"
            )
        return progress

    def encode(self) -> bytes:
        """Return it as JSON."""
        return msgspec.json.encode(self)


class _Saved(msgspec.Struct):
    source: msgspec.Raw
    delivery: msgspec.Raw


class Stored(NamedTuple):
    """State of a source, and the progress of its delivery if its batches are transactions. Both are saved together."""

    state: bytes | None
    """State behind which everything is stored in its topics; None: there is none."""
    delivery: bytes | None = None
    """Progress, as JSON; None: there is none."""

    @classmethod
    def decode(cls, encoded: bytes | None) -> Stored:
        """Read what `encode` has made, or a state alone."""
        if encoded is None:
            return cls(None)
        try:
            saved = msgspec.json.decode(encoded, type=_Saved)
        except NOT_JSON:
            return cls(encoded)
        state = bytes(saved.source)
        return cls(None if state == _NO_STATE else state, bytes(saved.delivery))

    def encode(self) -> bytes:
        """Return both as JSON, in the place of a state."""
        if self.delivery is None:
            raise AssertionError("a state alone is saved as it is")
        state = msgspec.Raw(_NO_STATE if self.state is None else self.state)
        return msgspec.json.encode(_Saved(state, msgspec.Raw(self.delivery)))
