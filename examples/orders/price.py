"""Sets prices in cents: `price.py tea=250 milk=120`."""

from __future__ import annotations

import argparse

from billing import Billing


def price(text: str) -> tuple[str, int]:
    """Read `ARTICLE=CENTS`.

    Raises:
        ValueError: It has another form.
    """
    article, _, cents = text.partition("=")
    if not article or not cents.isdecimal():
        raise ValueError(text)
    return article, int(cents)


def main() -> None:
    """Set the prices that the command line names."""
    parser = argparse.ArgumentParser(prog="price.py", description=__doc__)
    parser.add_argument("prices", nargs="+", type=price, metavar="ARTICLE=CENTS", help="such as tea=250")
    with Billing() as billing:
        for article, cents in parser.parse_args().prices:
            billing.set_price(article, cents)


if __name__ == "__main__":
    main()
