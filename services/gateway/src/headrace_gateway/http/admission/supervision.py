"""Access for supervisors that are not users: load balancers, process supervisors, metrics collectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from headrace_proto.cluster_token import is_one_of


def _always_ready() -> str | None:
    return None


def _nothing_absent() -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """Status for supervisors, and authentication of metrics collectors."""

    unready: Callable[[], str | None] = _always_ready
    """Reason why clients should use another gateway; None: ready."""
    absences: Callable[[], str | None] = _nothing_absent
    """Description of unreachable parts while the gateway is ready; None: all reachable. Unauthenticated callers read
    it, so it contains no names.
    """
    metrics_authorizations: Sequence[str] = ()
    """Values of the header `Authorization` that allow reading metrics without being a user."""

    def may_read_metrics(self, authorization: str) -> bool:
        """Return whether a header `Authorization` is that of a metrics collector."""
        return is_one_of(authorization, self.metrics_authorizations)


UNSUPERVISED: Final = Supervision()
