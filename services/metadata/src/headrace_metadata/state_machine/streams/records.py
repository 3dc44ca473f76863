"""Streams, topics and partitions: records, look-ups, and deltas of changes."""

from __future__ import annotations

from collections.abc import Container, Iterator

from headrace_metadata.state_machine.context import Refused
from headrace_proto.catalog.v1 import Delta, Stream, Topic, TopicKey
from headrace_proto.errors import Status


class Catalog:
    """All streams and topics.

    A record is never changed in place: a change puts a new record. A copy of the catalog is therefore as cheap as a
    copy of its dictionaries, and readers may keep a record for any time.
    """

    def __init__(self, changes: list[Delta]) -> None:
        """Start empty.

        Args:
            changes: List to which every change is appended, in order.
        """
        self._changes = changes
        self._streams: dict[int, Stream] = {}
        self._stream_ids: dict[str, int] = {}
        self._topics: dict[int, dict[int, Topic]] = {}
        self._topic_ids: dict[int, dict[str, int]] = {}

    def find_stream(self, stream_id: int) -> Stream | None:
        """Return a stream, if it exists."""
        return self._streams.get(stream_id)

    def stream(self, stream_id: int) -> Stream:
        """Return a stream.

        Raises:
            Refused: 1009, it does not exist.
        """
        try:
            return self._streams[stream_id]
        except KeyError:
            raise Refused(Status.STREAM_ID_NOT_FOUND) from None

    def topic(self, stream_id: int, topic_id: int) -> Topic:
        """Return a topic.

        Raises:
            Refused: 1009 or 2010, the stream or the topic does not exist.
        """
        self.stream(stream_id)
        try:
            return self._topics[stream_id][topic_id]
        except KeyError:
            raise Refused(Status.TOPIC_ID_NOT_FOUND) from None

    def find_topic(self, stream_id: int, topic: int | str) -> Topic | None:
        """Return a topic by its id or its name, if it exists."""
        topics = self._topics.get(stream_id)
        if topics is None:
            return None
        topic_id = self._topic_ids[stream_id].get(topic) if isinstance(topic, str) else topic
        return topics.get(topic_id) if topic_id is not None else None

    def streams(self) -> Iterator[Stream]:
        """Iterate over the streams, ascending by id."""
        return (self._streams[stream_id] for stream_id in sorted(self._streams))

    def topics_of(self, stream_id: int) -> Iterator[Topic]:
        """Iterate over the topics of an existing stream, ascending by id."""
        topics = self._topics[stream_id]
        return (topics[topic_id] for topic_id in sorted(topics))

    def stream_id_named(self, name: str) -> int | None:
        """Return the id of the stream with this name; None if there is none."""
        return self._stream_ids.get(name)

    def topic_id_named(self, stream_id: int, name: str) -> int | None:
        """Return the id of the topic with this name in an existing stream; None if there is none."""
        return self._topic_ids[stream_id].get(name)

    def unused_stream_id(self, end: int) -> int | None:
        """Return the smallest id below ``end`` that no stream carries."""
        return _smallest_unused(self._streams, end)

    def unused_topic_id(self, stream_id: int, end: int) -> int | None:
        """Return the smallest id below ``end`` that no topic of the stream carries."""
        return _smallest_unused(self._topics[stream_id], end)

    def put_stream(self, stream: Stream) -> None:
        """Add a stream, or replace the one with its id."""
        previous = self._streams.get(stream.id)
        if previous is None:
            self._topics[stream.id] = {}
            self._topic_ids[stream.id] = {}
        else:
            del self._stream_ids[previous.name]
        self._streams[stream.id] = stream
        self._stream_ids[stream.name] = stream.id
        self._changes.append(Delta(stream_put=stream))

    def remove_stream(self, stream: Stream) -> None:
        """Remove a stream with its topics, as one delta."""
        del self._streams[stream.id]
        del self._stream_ids[stream.name]
        del self._topics[stream.id]
        del self._topic_ids[stream.id]
        self._changes.append(Delta(stream_deleted=stream.id))

    def put_topic(self, topic: Topic) -> None:
        """Add a topic to an existing stream, or replace the one with its id."""
        topics, ids = self._topics[topic.stream_id], self._topic_ids[topic.stream_id]
        previous = topics.get(topic.id)
        if previous is not None:
            del ids[previous.name]
        topics[topic.id] = topic
        ids[topic.name] = topic.id
        self._changes.append(Delta(topic_put=topic))

    def remove_topic(self, topic: Topic) -> None:
        """Remove a topic."""
        del self._topics[topic.stream_id][topic.id]
        del self._topic_ids[topic.stream_id][topic.name]
        self._changes.append(Delta(topic_deleted=TopicKey(stream_id=topic.stream_id, topic_id=topic.id)))

    def copy(self, changes: list[Delta]) -> Catalog:
        """Return an independent catalog with the same records."""
        other = Catalog(changes)
        other._streams = dict(self._streams)
        other._stream_ids = dict(self._stream_ids)
        other._topics = {stream_id: dict(topics) for stream_id, topics in self._topics.items()}
        other._topic_ids = {stream_id: dict(ids) for stream_id, ids in self._topic_ids.items()}
        return other


def _smallest_unused(used: Container[int], end: int) -> int | None:
    return next((candidate for candidate in range(end) if candidate not in used), None)
