"""Those who look after the process without being a user of it: balancers, supervisors, who collects figures."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


def _always_ready() -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """What they are told, and how one of them is known."""

    unready: Callable[[], str | None] = _always_ready
    """Why clients should go elsewhere; None: they should come."""
    metrics_authorization: str | None = None
    """The header `Authorization` of whoever may read figures without being a user; None: nobody."""

    def may_read_figures(self, authorization: str) -> bool:
        """Whether a header `Authorization` is that of somebody who collects figures."""
        known = self.metrics_authorization
        return known is not None and hmac.compare_digest(authorization.encode(), known.encode())


UNSUPERVISED: Final = Supervision()
