"""Sends the flights from New York in 2013 to a topic, as JSON, in the order of their scheduled departures.

Uses the HTTP API of the gateway, at a chosen rate. Flights of a carrier go to the same partition. A last message, which
is no flight, advances the time by a month: consumers that count by day can then close the last days.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice

from gateway import FLIGHTS, Gateway, GatewayError, add_arguments, password
from stopping import on_signals
from table import DAYS_COUNT, FIRST_DAY, Flight, TableMissingError, read_flights

RATE = 2000
RATE_MAX = 20_000
CLOSING = timedelta(days=30)

_CHUNK_SECONDS = 0.1
# Number of flights that are sent carrier by carrier: about half a day, so that no partition is far ahead of the others.
_CHUNK_FLIGHTS_MAX = 500
_REPORT_SECONDS = 5.0


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the options in `argv`; invalid ones end the program with status 2."""
    parser = argparse.ArgumentParser(prog="produce.py", description=__doc__)
    add_amounts(parser)
    add_arguments(parser)
    options = parser.parse_args(argv)
    check_amounts(parser, options)
    return options


def add_amounts(parser: argparse.ArgumentParser) -> None:
    """Add the options for the number of flights and the rate."""
    parser.add_argument("--rate", type=int, default=RATE, help=f"flights per second, up to {RATE_MAX} [%(default)s]")
    parser.add_argument(
        "--days", type=int, default=DAYS_COUNT, help=f"only so many days, 1 to {DAYS_COUNT} [%(default)s]"
    )


def check_amounts(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Validate these options; invalid ones end the program with status 2."""
    if not 1 <= options.rate <= RATE_MAX:
        parser.error(f"--rate: 1 to {RATE_MAX}")
    if not 1 <= options.days <= DAYS_COUNT:
        parser.error(f"--days: 1 to {DAYS_COUNT}")


def send(gateway: Gateway, flights: Sequence[Flight], options: argparse.Namespace, stop: threading.Event) -> int:
    """Send flights at the requested rate; returns the number of flights sent before a stop request.

    Raises:
        GatewayError: A request was refused, or not answered.
    """
    gateway.make_topics(options.stream)
    remaining = iter(flights)
    chunk_count = max(1, min(_CHUNK_FLIGHTS_MAX, round(options.rate * _CHUNK_SECONDS)))
    sent = 0
    began = reported = time.monotonic()
    while not stop.is_set() and (chunk := list(islice(remaining, chunk_count))):
        for carrier, rows in by_carrier(chunk):
            gateway.send(options.stream, FLIGHTS, carrier, (flight.to_dict() for flight in rows))
        sent += len(chunk)
        now = time.monotonic()
        if now - reported >= _REPORT_SECONDS:
            reported = now
            day = chunk[-1].scheduled[:10]
            say(f"{sent:,} of {len(flights):,} flights sent, {sent / (now - began):,.0f}/s, up to {day}")
        stop.wait(began + sent / options.rate - now)
    if not stop.is_set():
        end = FIRST_DAY + timedelta(days=options.days) + CLOSING
        gateway.send(options.stream, FLIGHTS, "clock", [{"scheduled": end.isoformat()}])
    say(f"{sent:,} flights sent in {time.monotonic() - began:.1f} s")
    return sent


def by_carrier(flights: Sequence[Flight]) -> Iterator[tuple[str, list[Flight]]]:
    """Group flights by carrier, keeping their order."""
    found: dict[str, list[Flight]] = {}
    for flight in flights:
        found.setdefault(flight.carrier, []).append(flight)
    yield from found.items()


def say(text: str) -> None:
    """Print a line for the user."""
    sys.stderr.write(f"produce: {text}\n")


def main(argv: Sequence[str]) -> int:
    """Send all flights, or until Ctrl-C; returns the exit status."""
    options = parse(argv)
    stop = on_signals()
    try:
        flights = read_flights(options.days)
        with Gateway(options.http, options.username, password()) as gateway:
            send(gateway, flights, options, stop)
    except (GatewayError, TableMissingError) as error:
        say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
