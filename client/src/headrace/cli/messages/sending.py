"""Sending of many messages, with an account of what is acknowledged when it is interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from headrace.cli.errors import CommandError, refusal
from headrace.cli.messages.headers import with_key
from headrace.cli.servers.resolving import TopicPath
from headrace_core import Client, CodecError, ConnectionLost, ServerError, encode_send_messages

_BATCH_BYTES_MAX: Final = 1_000_000
_INTERRUPTED: Final = 130


class Outgoing(NamedTuple):
    """A message to send."""

    line: int
    """Number of its line, or of its argument, from 1."""
    payload: bytes
    headers: bytes = b""
    """Headers as the protocol has them."""
    key: bytes | None = None
    partition: int | None = None


def send_all(
    client: Client,
    path: TopicPath,
    messages: Iterable[Outgoing],
    *,
    messages_max: int,
    on_acknowledged: Callable[[int, int, int], None],
    on_stopped: Callable[[int, list[int]], None] | None = None,
) -> int:
    """Send messages in batches, in order within each partition and key; return how many.

    Args:
        client: Logged-in client.
        path: The topic.
        messages: The messages.
        messages_max: Maximum number of messages in a batch.
        on_acknowledged: Called with the number of messages acknowledged so far, the bytes of the last batch, and the
            line of its last message.
        on_stopped: Called if a batch was acknowledged in part when it failed, with the number of messages acknowledged
            so far, and the lines of those of the batch.

    Raises:
        CommandError: The connection was lost, the server refused a batch, or the user interrupted. The message says
            what is acknowledged and what is uncertain.
    """
    count = 0
    readable = _Readable(batches(messages, messages_max))
    try:
        for batch in readable:
            lines: list[int] = []
            try:
                for part in _parts(batch):
                    _send_part(client, path, part, count)
                    count += len(part)
                    lines += [message.line for message in part]
                readable.acknowledged_count = count
                on_acknowledged(count, sum(len(message.payload) for message in batch), batch[-1].line)
            except BaseException:
                if lines and on_stopped is not None:
                    on_stopped(count, lines)
                raise
    except KeyboardInterrupt:
        # Outside of a request, most likely in a wait for input.
        raise CommandError(f"interrupted: stopped after {count:,} acknowledged messages", status=_INTERRUPTED) from None
    return count


class _Readable:
    """The batches up to the first message that cannot be read; the failure then says what was sent before."""

    def __init__(self, batches: Iterator[list[Outgoing]]) -> None:
        self._batches = batches
        self.acknowledged_count = 0

    def __iter__(self) -> Iterator[list[Outgoing]]:
        try:
            yield from self._batches
        except CommandError as error:
            if not self.acknowledged_count:
                raise
            raise CommandError(f"{error}\nstopped after {self.acknowledged_count:,} acknowledged messages") from error


def batches(messages: Iterable[Outgoing], messages_max: int) -> Iterator[list[Outgoing]]:
    """Group messages in order; a full batch does not wait for the next message, which a pipe may have much later."""
    batch: list[Outgoing] = []
    batch_bytes = 0
    for message in messages:
        size_bytes = len(message.payload) + len(message.headers)
        if batch and batch_bytes + size_bytes > _BATCH_BYTES_MAX:
            yield batch
            batch, batch_bytes = [], 0
        batch.append(message)
        batch_bytes += size_bytes
        if len(batch) == messages_max:
            yield batch
            batch, batch_bytes = [], 0
    if batch:
        yield batch


def _parts(batch: list[Outgoing]) -> Iterable[list[Outgoing]]:
    """Return the messages by partition and key, which are sent in a request each."""
    parts: dict[tuple[int | None, bytes | None], list[Outgoing]] = {}
    for message in batch:
        parts.setdefault((message.partition, message.key), []).append(message)
    return parts.values()


def _send_part(client: Client, path: TopicPath, part: list[Outgoing], count: int) -> None:
    try:
        _send(client, path, part)
    except ConnectionLost as error:
        raise CommandError(_uncertain(count, part, f"the connection was lost ({error})")) from error
    except (CodecError, ValueError) as error:
        raise CommandError(_unsendable(count, part, str(error))) from error
    except KeyboardInterrupt:
        raise CommandError(_uncertain(count, part, "interrupted"), status=_INTERRUPTED) from None
    except ServerError as error:
        raise CommandError(_refused(path, count, part, error)) from error


def _send(client: Client, path: TopicPath, part: list[Outgoing]) -> None:
    first = part[0]
    if first.key is not None or any(message.headers for message in part):
        command = encode_send_messages(
            [(0, message.payload, with_key(message.headers, message.key)) for message in part],
            stream=path.stream,
            topic=path.topic,
            partition=first.partition,
            key=first.key,
            origin_timestamp_micros=time.time_ns() // 1000,
        )
        client.request(*command)
        return
    payloads = [message.payload for message in part]
    client.send(path.stream, path.topic, payloads, partition=first.partition)


def _uncertain(count: int, part: list[Outgoing], reason: str) -> str:
    first, last = part[0].line, part[-1].line
    if last - first == len(part) - 1:
        lines = f"line {first:,}" + (f" and up to {len(part) - 1:,} more are" if len(part) > 1 else " is")
    else:
        lines = f"up to {len(part):,} of the lines {first:,} to {last:,} are"
    return f"{reason}: stopped after {count:,} acknowledged messages; {lines} uncertain"


def _unsendable(count: int, part: list[Outgoing], reason: str) -> str:
    first, last = part[0].line, part[-1].line
    lines = f"line {first:,}" if first == last else f"lines {first:,} to {last:,}"
    return f"{lines}: {reason}" + (f"\nstopped after {count:,} acknowledged messages" if count else "")


def _refused(path: TopicPath, count: int, part: list[Outgoing], error: ServerError) -> str:
    if error.name in {"StreamIdNotFound", "TopicIdNotFound"}:
        reason = f"there is no topic {path.name} any more, or this user may not see it"
    elif error.name == "PartitionNotFound":
        reason = f"{path.name} has no partition {part[0].partition}"
    else:
        reason = refusal(error)
    return f"{reason}\nstopped before line {part[0].line:,}, after {count:,} acknowledged messages" if count else reason
