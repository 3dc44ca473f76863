"""Exceptions of this package. Spark shows the type and the text of the exception that ends a query."""

from __future__ import annotations


class HeadraceError(Exception):
    """Base class: an error raised by this package or reported by a server."""


class OptionError(HeadraceError):
    """An option is unknown, missing or invalid."""


class SchemaError(HeadraceError):
    """A requested schema has columns that records do not have."""


class DataLossError(HeadraceError):
    """Messages of the requested range are missing or replaced. See the option ``failOnDataLoss``."""


class RowRefusedError(HeadraceError):
    """A row cannot be a message."""


class OffsetError(HeadraceError):
    """Offsets that were not written by this package, or that do not form a range."""


class ServerRefusedError(HeadraceError):
    """A server refuses a request for good; a retry would not help."""

    def __init__(self, message: str, status: int = 0) -> None:
        """Describe the refusal.

        Args:
            message: Human-readable text.
            status: Code of ``headrace_proto.errors``; 0 if the server named none.
        """
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[type[ServerRefusedError], tuple[str, int]]:
        return type(self), (str(self), self.status)


class TicketExpiredError(ServerRefusedError):
    """The ticket issued by the driver for this range has expired, and this process cannot request a new one."""


class FencedError(ServerRefusedError):
    """Another query writes under the same ``transactionalId``. See the option ``onCheckpointReset``."""


class StageExpiredError(ServerRefusedError):
    """A batch took longer than ``stageLifetime``."""


class BatchError(HeadraceError):
    """The parts that tasks have staged do not belong to the batch that Spark commits."""


class UnreachableError(HeadraceError):
    """A server did not answer or broke the connection, and the retries allowed by ``retry.max`` are used up."""


class StalledError(UnreachableError):
    """A server sent nothing within ``fetchTimeoutMs``, and the retries allowed by ``retry.max`` are used up."""


class AlteredError(HeadraceError):
    """Received data differ from what the server sent. The task fails: some of the data may have been passed on."""


class IncompleteError(HeadraceError):
    """A server sent something other than the requested range."""
