"""Prices and costs."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from pyspark_headrace.jobs.running.arguments import ArgumentError

MESSAGES_IN: Final = "messages_in"
BYTES_IN: Final = "bytes_in"
STORED: Final = "stored_byte_hours"
KINDS: Final = (MESSAGES_IN, BYTES_IN, STORED)
"""Priced quantities."""

AMOUNT_SCALE: Final = 9
_AMOUNT_PLACES: Final = Decimal(1).scaleb(-AMOUNT_SCALE)
_PRICE_MAX: Final = Decimal(10) ** 12


@dataclass(frozen=True)
class Price:
    """Price per number of units."""

    price: Decimal
    per: int = 1

    def of(self, quantity: int) -> Decimal:
        """Return the cost of a quantity, rounded to nine decimal places."""
        return (self.price * quantity / self.per).quantize(_AMOUNT_PLACES)


@dataclass(frozen=True)
class Prices:
    """Default prices, and prices of individual tenants."""

    currency: str
    usual: Mapping[str, Price]
    """Default prices by kind; a kind without price is free."""
    special: Mapping[str, Mapping[str, Price]] = field(default_factory=dict)
    """Prices by tenant; other kinds have the default price."""

    def of(self, tenant: str, kind: str) -> Price | None:
        """Return the price of a kind for a tenant, if any."""
        return self.special.get(tenant, {}).get(kind, self.usual.get(kind))


def prices_of(path: Path) -> Prices:
    """Read a price file, TOML or JSON.

    Raises:
        ArgumentError: The file cannot be read, or is invalid.
    """
    value = table_of(path, "--prices")
    try:
        unknown = value.keys() - {"currency", "prices", "tenants"}
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))} means nothing")
        currency = value.get("currency")
        if not isinstance(currency, str) or not currency.strip():
            raise ValueError("currency is needed, like EUR")
        special = _tables(value.get("tenants", {}), "tenants")
        return Prices(
            currency,
            _prices(value.get("prices", {}), "prices"),
            {tenant: _prices(of_it, f"tenants.{tenant}") for tenant, of_it in special.items()},
        )
    except ValueError as error:
        raise ArgumentError(f"--prices {path}: {error}") from None


def table_of(path: Path, flag: str) -> dict[str, Any]:
    """Parse a TOML or JSON file, depending on its name. Numbers keep all digits.

    Raises:
        ArgumentError: The file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            value = json.loads(text, parse_float=Decimal)
        else:
            value = tomllib.loads(text, parse_float=Decimal)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"{flag} {path}: {error}") from None
    if not isinstance(value, dict):
        raise ArgumentError(f"{flag} {path}: this is not a TOML table")
    return value


def _tables(value: Any, title: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(of_it, dict) for of_it in value.values()):
        raise ValueError(f"{title} is not a table of tables")
    return value


def _prices(value: Any, title: str) -> dict[str, Price]:
    found: dict[str, Price] = {}
    for kind, entry in _tables(value, title).items():
        if kind not in KINDS:
            raise ValueError(f"{title}.{kind}: there are {', '.join(KINDS)}")
        if not {"price"} <= entry.keys() <= {"price", "per"}:
            raise ValueError(f"{title}.{kind}: it has a price, and perhaps per, and nothing else")
        found[kind] = Price(_decimal(entry["price"], f"{title}.{kind}.price"), _count(entry.get("per", 1), title, kind))
    return found


def _decimal(value: Any, title: str) -> Decimal:
    expected = ValueError(f"{title}: {value!r} is not a price, such as 0.02")
    if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
        raise expected
    try:
        price = Decimal(value)
    except ArithmeticError:
        raise expected from None
    if not price.is_finite() or not 0 <= price <= _PRICE_MAX:
        raise expected
    return price


def _count(value: Any, title: str, kind: str) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{title}.{kind}.per: {value!r} is not a whole number of at least 1")
    return value
