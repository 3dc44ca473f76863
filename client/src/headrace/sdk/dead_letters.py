"""Messages that cannot be processed, on their way to a topic of their own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import headrace_core as core
from headrace.sdk.calls import Name, encoded, found
from headrace.sdk.direct import DirectSteps, Outgoing
from headrace.sdk.errors import AlreadyExists, InvalidArgument, NotFound, PermissionDenied, native
from headrace.sdk.options import ConsumerOptions, DirectProducerOptions
from headrace.sdk.results import value_of
from headrace.sdk.stages import Steps
from headrace_core import Delivered, Message, SessionConfig

_LOG: Final = logging.getLogger("headrace")

PREFIX: Final = "x-dead-letter-"
"""Beginning of the names of headers of dead letters; those of the pipeline jobs are the same."""
HEADERS: Final = f"{PREFIX}headers"
"""Header that says why those of the message are missing; letters with all of them lack it."""
SUFFIX: Final = "-dead"
_VALUE_BYTES_MAX: Final = 255


class DeadLetters:
    """Sends dead letters of one consumer; its calls are steps, as those of `DirectSteps`."""

    def __init__(self, config: SessionConfig, stream: Name, topic: Name, options: ConsumerOptions) -> None:
        """Describe the dead letters; nothing is connected before the first."""
        self._config = config
        self._stream, self._topic = stream, topic
        self._options = options
        self._direct: DirectSteps | None = None
        self._source_stream: str | None = stream if isinstance(stream, str) else None
        self._source_topic: str | None = topic if isinstance(topic, str) else None

    def send(self, message: Message, reason: str | BaseException, attempts: int) -> Steps[Delivered]:
        """Store a message in the dead-letter topic. Errors as of `Consumer.dead_letter`."""
        if not reason_text(reason):
            raise InvalidArgument("reason: say why the message cannot be processed: a text or an exception")
        if attempts < 1:
            raise InvalidArgument(f"attempts: {attempts!r} is not allowed; it is a whole number of at least 1")
        if self._direct is None:
            self._direct = DirectSteps(self._config, DirectProducerOptions())
        stream = yield from self._stream_name(self._direct)
        topic = yield from self._topic_name(self._direct)
        target = self._options.dead_letter_topic or f"{topic}{SUFFIX}"
        letter = Outgoing(
            message.payload,
            key=message.key,
            headers=_encoded_headers(message, stream, topic, reason, attempts),
        )
        try:
            runs = yield from self._direct.send_to((self._stream, target), [letter], None, None, None)
        except NotFound:
            if not self._options.create_dead_letter_topic:
                raise
            yield from self._create(self._direct, target)
            runs = yield from self._direct.send_to((self._stream, target), [letter], None, None, None)
        return runs[0][0]

    def _stream_name(self, direct: DirectSteps) -> Steps[str]:
        """Return the name of the stream, or its number if this user may not read the stream."""
        if self._source_stream is None:
            stream = self._stream
            pending = native(direct.native.submit, *encoded(lambda: core.encode_get_stream(stream=stream)))
            yield pending
            decode = found(core.decode_stream, f"stream {stream!r}")
            try:
                self._source_stream = decode(value_of(pending)).name
            except PermissionDenied:
                self._source_stream = str(stream)
        return self._source_stream

    def _topic_name(self, direct: DirectSteps) -> Steps[str]:
        if self._source_topic is None:
            stream, topic = self._stream, self._topic
            pending = native(direct.native.submit, *encoded(lambda: core.encode_get_topic(stream=stream, topic=topic)))
            yield pending
            decode = found(core.decode_topic, f"topic {topic!r} in stream {stream!r}")
            self._source_topic = decode(value_of(pending)).name
        return self._source_topic

    def _create(self, direct: DirectSteps, name: str) -> Steps[None]:
        # Creating a topic twice creates one, so the request may be repeated.
        stream = self._stream
        request = encoded(
            lambda: core.encode_create_topic(
                stream=stream, name=name, partitions_count=1, message_expiry_micros=0, max_size_bytes=0
            )
        )
        pending = native(direct.native.submit, *request)
        yield pending
        try:
            value_of(pending)
            _LOG.info("the dead-letter topic %r was created in stream %r", name, stream)
        except AlreadyExists:
            return
        except PermissionDenied as error:
            raise PermissionDenied(
                f"there is no dead-letter topic {name!r} in stream {stream!r}, and this user may not create it: "
                "have it created, or name another one with dead_letter_topic",
                code=error.code,
            ) from None

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._direct is not None:
            self._direct.native.close()


def reason_text(reason: str | BaseException) -> str:
    """Return the reason as a text: of an exception its message, or its form in code if it has none."""
    return reason if isinstance(reason, str) else (str(reason) or repr(reason))


def _named(
    stream: str, topic: str, message: Message, reason: str | BaseException, attempts: int
) -> Iterator[tuple[str, str]]:
    yield "reason", reason_text(reason)
    if isinstance(reason, BaseException):
        kind = type(reason)
        yield (
            "exception",
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}",
        )
    yield "attempts", str(attempts)
    yield "time", datetime.now(UTC).isoformat(timespec="milliseconds")
    yield "stream", stream
    yield "topic", topic
    yield "partition", str(message.partition_id)
    yield "offset", str(message.offset)


def _encoded_headers(message: Message, stream: str, topic: str, reason: str | BaseException, attempts: int) -> bytes:
    """Headers of the message as they are, without those of an earlier dead letter, and the new ones.

    A message must not stay because there is no room for the new ones: its own are left out then, and a header says so.
    """
    prefix = PREFIX.encode()
    new = [
        (("string", prefix + name.encode()), ("string", _cut(value)))
        for name, value in _named(stream, topic, message, reason, attempts)
    ]
    lost = "unreadable"
    kept = core.decode_user_headers(message.user_headers)
    if kept is not None:
        try:
            return core.encode_user_headers([*(pair for pair in kept if not pair[0][1].startswith(prefix)), *new])
        except core.CodecError as error:
            # Any other refusal is of a single header.
            lost = "too large" if error.field == "headers" else lost
    _LOG.warning(
        "partition %d: the headers of the message at offset %d are %s; its dead letter goes without them",
        message.partition_id,
        message.offset,
        lost,
    )
    return core.encode_user_headers([*new, (("string", HEADERS.encode()), ("string", lost.encode()))])


def _cut(text: str) -> bytes:
    """Return a text in UTF-8, as much of it as a header holds."""
    return text.encode(errors="replace")[:_VALUE_BYTES_MAX].decode(errors="ignore").encode()
