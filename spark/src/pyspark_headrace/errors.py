"""What goes wrong in this package, by type: Spark shows the type and the text of whatever ends a query."""

from __future__ import annotations


class HeadraceError(Exception):
    """Anything that this package refuses or that a server does."""


class OptionError(HeadraceError):
    """An option is unknown, missing or has a value that it cannot have."""


class SchemaError(HeadraceError):
    """A schema was asked for that records do not have."""


class DataLossError(HeadraceError):
    """Messages that were to be read are not there any more, or not the same ones. See the option ``failOnDataLoss``."""


class RowRefusedError(HeadraceError):
    """A row cannot be a message."""


class OffsetError(HeadraceError):
    """Offsets that no version of this package has written, or that make no range."""


class ServerRefusedError(HeadraceError):
    """A server refuses what it was asked for; asking again would not help."""

    def __init__(self, message: str, status: int = 0) -> None:
        """Describe the refusal.

        Args:
            message: For people.
            status: Code of ``headrace_proto.errors``; 0: the server named none.
        """
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[type[ServerRefusedError], tuple[str, int]]:
        return type(self), (str(self), self.status)


class TicketExpiredError(ServerRefusedError):
    """The ticket that the driver had made for this range is over, and here is nothing to get a new one with."""


class FencedError(ServerRefusedError):
    """Another query writes under the same ``transactionalId``. See the option ``onCheckpointReset``."""


class StageExpiredError(ServerRefusedError):
    """A batch took longer than ``stageLifetime``."""


class BatchError(HeadraceError):
    """What tasks have staged is not the batch that Spark commits."""


class UnreachableError(HeadraceError):
    """A server did not answer, or broke off, as often as ``retry.max`` allows."""


class StalledError(UnreachableError):
    """A server sent nothing for as long as ``fetchTimeoutMs`` allows, as often as ``retry.max`` does."""


class AlteredError(HeadraceError):
    """What has arrived is not what the server has sent. The task fails, since some of it may have been handed on."""


class IncompleteError(HeadraceError):
    """A server sent something else than the range that it was asked for."""
