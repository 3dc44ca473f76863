"""Prints how many orders are billed, and their sum in cents, by customer."""

from __future__ import annotations

import sys

from billing import Billing


def main() -> None:
    """Print the totals."""
    with Billing() as billing:
        for customer, count, cents in billing.totals():
            sys.stdout.write(f"{customer:<12}{count:>6}{cents:>10}\n")


if __name__ == "__main__":
    main()
