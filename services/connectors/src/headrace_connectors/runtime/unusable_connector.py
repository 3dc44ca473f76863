"""A connector whose stored configuration is not valid any more: it is shown, and others are not held up by it."""

from __future__ import annotations

from typing import Literal

from headrace_connectors.contract import ConnectorError
from headrace_connectors.pipeline_file.models import ConnectorSettings
from headrace_connectors.runtime.connector import Connector


class InvalidConfiguration(ConnectorError):
    """The configuration is not valid."""

    code = "invalid_configuration"


class UnusableConnector(Connector):
    """Ends with an error as soon as it is started.

    Args:
        key: Its name.
        kind: The kind that it would have.
        plugin: Name of its plugin.
        reason: Reason why it cannot run.
    """

    is_usable = False

    def __init__(self, key: str, kind: Literal["source", "sink"], plugin: str, reason: str) -> None:
        super().__init__(key, plugin, ConnectorSettings.model_construct(plugin=plugin))
        self.kind = kind
        self._reason = reason

    @property
    def invalid_count(self) -> int:
        """Zero: it reads nothing."""
        return 0

    async def _serve(self) -> None:
        raise InvalidConfiguration(self._reason)

    def _halt(self) -> bool:
        return False
