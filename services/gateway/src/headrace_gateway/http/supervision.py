"""Those who look after the process without being a user of it: balancers, supervisors, who collects figures."""

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
    """What they are told, and how one of them is known."""

    unready: Callable[[], str | None] = _always_ready
    """Why clients should go elsewhere; None: they should come."""
    absences: Callable[[], str | None] = _nothing_absent
    """What is not there although clients should come; None: everything is there. Strangers read it: it has no names."""
    metrics_authorizations: Sequence[str] = ()
    """The headers `Authorization` of those who may read metrics without being users."""

    def may_read_figures(self, authorization: str) -> bool:
        """Whether a header `Authorization` is that of somebody who collects metrics."""
        return is_one_of(authorization, self.metrics_authorizations)


UNSUPERVISED: Final = Supervision()
