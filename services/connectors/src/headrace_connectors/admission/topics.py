"""Topics at the server: looking them up, and creating those that do not exist."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Literal

from headrace.aio.client import Client
from headrace.sdk.errors import AlreadyExists, NotFound
from headrace_connectors.admission.table import Name, NotCreated
from headrace_connectors.pipeline_file.models import TopicDefaults


class Topics:
    """Makes sure that topics exist.

    Args:
        client: A client whose user may create them.
        defaults_of: Return the properties of a topic that is created, by stream and topic.
        on_ready: Receives the seconds that it took.
    """

    def __init__(
        self,
        client: Client,
        defaults_of: Callable[[str, str], TopicDefaults],
        on_ready: Callable[[float], object] = lambda _seconds: None,
    ) -> None:
        self._client = client
        self._defaults_of = defaults_of
        self._on_ready = on_ready

    async def partitions_count(self, name: Name) -> int | None:
        """Return the number of partitions of a topic; None: it does not exist, and `ensure` creates it.

        Raises:
            NotCreated: It does not exist, and `topic_defaults.create` is false.
            HeadraceError: The server refused it, or was not reached.
        """
        stream, topic = name
        try:
            return (await self._client.topic(stream, topic)).partitions_count
        except NotFound:
            if self._defaults_of(stream, topic).create:
                return None
            raise NotCreated(
                f"{stream}/{topic} does not exist, and topic_defaults.create is false: create it, or set it to true"
            ) from None

    async def ensure(self, name: Name) -> int:
        """Return the number of partitions of a topic, after creating it if it does not exist.

        Several processes may do this at the same time.

        Raises as `partitions_count`.
        """
        began = monotonic()
        count = await self.partitions_count(name)
        if count is None:
            count = await self._create(*name)
        self._on_ready(monotonic() - began)
        return count

    async def _create(self, stream: str, topic: str) -> int:
        defaults = self._defaults_of(stream, topic)
        with contextlib.suppress(AlreadyExists):
            await self._client.create_stream(stream)
        with contextlib.suppress(AlreadyExists):
            await self._client.create_topic(
                stream,
                topic,
                partitions=defaults.partitions_count,
                message_expiry=_expiry(defaults),
                max_size_bytes=0 if defaults.max_size is None else defaults.max_size.bytes,
            )
        return (await self._client.topic(stream, topic)).partitions_count


def _expiry(defaults: TopicDefaults) -> timedelta | Literal["never"] | None:
    """Return the expiry as the SDK takes it."""
    expiry = defaults.message_expiry
    if expiry.is_server_default:
        return None
    return "never" if expiry.is_never else timedelta(microseconds=expiry.micros)
