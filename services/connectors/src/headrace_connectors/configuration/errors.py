"""Refusals of changes."""

from __future__ import annotations

from typing import ClassVar

from headrace_connectors.contract import ConnectorError


class NotFound(ConnectorError):
    """A connector, mapping or version that does not exist."""

    code: ClassVar[str] = "not_found"


class ChangedMeanwhile(ConnectorError):
    """The caller has seen another state than the present one."""

    code: ClassVar[str] = "changed_meanwhile"


class NotChangeable(ConnectorError):
    """Changes are not accepted."""

    code: ClassVar[str] = "not_changeable"


class WrongKind(ConnectorError):
    """The name is taken by a connector of the other kind."""

    code: ClassVar[str] = "wrong_kind"


class ChangedAtOnce(ConnectorError):
    """Another process has changed the same at the same time."""

    code: ClassVar[str] = "changed_at_once"


class NotStored(ConnectorError):
    """The change cannot be written to the disk."""

    code: ClassVar[str] = "not_stored"


class TooLarge(ConnectorError):
    """The topic of the group has no space for the change."""

    code: ClassVar[str] = "too_large"
