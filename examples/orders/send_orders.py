"""Places sample orders: sends them to the webhook, a hundred at a time.

Every tenth order is one that cannot be billed at first: it names the article `saffron`, which is not in the price list,
or, every fiftieth, it has no number of pieces.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.error
import urllib.request
from typing import Any

ADDRESS = "http://127.0.0.1:8121/orders"
ARTICLES = ("tea", "milk", "bread")
_BATCH = 100
_RETRY_SECONDS = 0.2
_TIMEOUT_SECONDS = 30.0


def order(number: int) -> dict[str, Any]:
    """Return a sample order."""
    article = "saffron" if number % 10 == 0 else ARTICLES[number % len(ARTICLES)]
    count: Any = "many" if number % 50 == 0 else 1 + number % 3
    return {"number": number, "customer": f"customer-{number % 7}", "article": article, "count": count}


def send(address: str, orders: list[dict[str, Any]]) -> None:
    """Send orders until they are stored.

    All attempts have one `Idempotency-Key`, so that orders of a lost answer have the same message ids when they are
    stored again.

    Raises:
        OSError: The webhook refused them, or was not reached within half a minute.
    """
    headers = {"Content-Type": "application/json", "Idempotency-Key": f"orders-from-{orders[0]['number']}"}
    request = urllib.request.Request(address, data=json.dumps(orders).encode(), headers=headers)  # noqa: S310 - http
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        try:
            urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS).close()  # noqa: S310 - http
        except OSError as error:
            is_final = isinstance(error, urllib.error.HTTPError) and error.code not in {429, 503}
            if is_final or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def main() -> None:
    """Send as many orders as the command line asks for."""
    parser = argparse.ArgumentParser(prog="send_orders.py", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="number of orders [%(default)s]")
    parser.add_argument("--address", default=ADDRESS, help="address of the webhook [%(default)s]")
    options = parser.parse_args()
    for first in range(1, options.count + 1, _BATCH):
        try:
            send(options.address, [order(number) for number in range(first, min(first + _BATCH, options.count + 1))])
        except OSError as error:
            place = f"orders from number {first} on are not stored: {options.address}"
            parser.exit(1, f"send_orders.py: {place}: {error}. Check that the connector runs\n")
    sys.stdout.write(f"{options.count} orders are stored\n")


if __name__ == "__main__":
    main()
