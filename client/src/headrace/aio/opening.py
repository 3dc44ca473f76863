"""Objects that open when they are entered or awaited."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from types import TracebackType
from typing import Any, Self


class Opening(ABC):
    """An object that opens once, when it is entered with ``async with`` or awaited, and is closed at the end."""

    @abstractmethod
    async def _ensure_open(self) -> Self:
        """Open, if it is not open, and return this object."""

    @abstractmethod
    async def close(self) -> None:
        """Close this object."""

    def __await__(self) -> Generator[Any, None, Self]:
        return self._ensure_open().__await__()

    async def __aenter__(self) -> Self:
        return await self._ensure_open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
