"""Both flavours of the SDK behind one interface, that of `headrace.aio`: a test is written once and runs on each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Final, Self

import headrace
import headrace.aio

_AT_ONCE: Final = frozenset({"abort", "done", "pause", "resume"})
"""Methods that do not wait in either flavour."""
_OPENING: Final = frozenset({"producer", "direct_producer", "consumer"})
_END: Final = object()


class Awaited:
    """An object of the blocking flavour whose calls run on threads."""

    def __init__(self, blocking: Any) -> None:
        self.blocking = blocking

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.blocking, name)
        if not callable(value) or name in _AT_ONCE:
            return value
        if name in _OPENING:
            return lambda *args, **options: Opening(lambda: value(*args, **options))
        if name == "batches":
            return lambda: _iterated(value())

        async def call(*args: Any, **options: Any) -> Any:
            return _wrapped(await asyncio.to_thread(value, *args, **options))

        return call

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.to_thread(self.blocking.result).__await__()

    def __len__(self) -> int:
        return len(self.blocking)

    def __aiter__(self) -> AsyncIterator[Any]:
        return _iterated(self.blocking)


class Opening:
    """A blocking object that is made, and opened, when it is entered."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None

    async def __aenter__(self) -> Awaited:
        self._made = await asyncio.to_thread(self._make)
        return Awaited(self._made)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._made.__exit__, kind, error, trace)


async def _iterated(blocking: Any) -> AsyncIterator[Any]:
    iterator: Iterator[Any] = iter(blocking)
    while (item := await asyncio.to_thread(next, iterator, _END)) is not _END:
        yield item


def _wrapped(value: Any) -> Any:
    is_own = isinstance(value, headrace.Delivery | headrace.Deliveries)
    return Awaited(value) if is_own else value


class Flavour:
    """One of the two flavours."""

    def __init__(self, name: str) -> None:
        self.name = name

    def connect(self, url: str, **options: Any) -> Any:
        """Return a client as an asynchronous context manager."""
        if self.name == "asyncio":
            return headrace.aio.connect(url, **options)
        return Opening(lambda: headrace.connect(url, **options))

    def __repr__(self) -> str:
        return self.name


FLAVOURS: Final = (Flavour("blocking"), Flavour("asyncio"))


class Callbacks:
    """Partitions that a consumer was given and gave up, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[int]]] = []

    def arguments(self) -> dict[str, Callable[[Any], None]]:
        """Return the arguments of `consumer`."""

        def noting(kind: str) -> Callable[[Any], None]:
            return lambda partitions: self.seen.append((kind, sorted(partitions)))

        return {f"on_{kind}": noting(kind) for kind in ("assigned", "revoked", "lost")}

    def of(self, kind: str) -> list[int]:
        """Partitions of all calls of a kind."""
        return sorted(partition for seen, partitions in self.seen if seen == kind for partition in partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.seen.clear()
