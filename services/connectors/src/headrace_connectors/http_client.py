"""Pieces of connectors that call HTTP servers."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from headrace_connectors.contract import ConnectorError, Unavailable

_PASSING: Final = (408, 425, 429)


def passes(status: int) -> bool:
    """Return True if the server may answer otherwise soon: 408, 425, 429 and 5xx."""
    return status in _PASSING or status >= 500


def pause_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of the header `Retry-After`: a number, or a date (RFC 9110, 10.2.3).

    None: there is no such header, or it cannot be read.
    """
    text = headers.get("Retry-After", "").strip()
    # Other digits than ASCII are digits for `str.isdigit`, and not always numbers for `float`.
    if text.isascii() and text.isdigit():
        return float(text)
    with contextlib.suppress(ValueError, OverflowError):
        time = parsedate_to_datetime(text)
        # Without a zone, and with -0000, the date has none in Python.
        return max(0.0, (time.replace(tzinfo=time.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    return None


async def beginning(body: aiohttp.StreamReader, bytes_max: int) -> bytes:
    """Return a body, or its first bytes if it has more. `StreamReader.read` ends with what has arrived so far."""
    try:
        return await body.readexactly(bytes_max)
    except asyncio.IncompleteReadError as error:
        return error.partial


def without_secrets(url: str) -> str:
    """Return an address for messages: its login and its parameters may be secrets, and are left out.

    Examples:
        >>> without_secrets("https://anna:hunter2@shop/in?token=x")
        'https://shop/in'
    """
    try:
        parts = urlsplit(url)
        # A password with / or # ends the host: its beginning would be the port.
        _ = parts.port
    except ValueError:
        return "the address"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def not_reached(url: str, error: Exception) -> ConnectorError:
    """Return the error for a request to `settings.url` without an answer: `Unavailable`, if it is an address at all."""
    if isinstance(error, aiohttp.InvalidURL) and not isinstance(error, aiohttp.RedirectClientError):
        return ConnectorError(f"{without_secrets(url)} is no address: correct settings.url")
    return Unavailable(f"{without_secrets(url)} is not reached: {reason_of(error)}")


def redirected(url: str, status: int) -> ConnectorError | None:
    """Return the error for a redirect, which is not followed: it would take the body of a request to another server."""
    if status // 100 == 3:
        return ConnectorError(f"{without_secrets(url)} answered {status}, a redirect: correct settings.url")
    return None


def reason_of(error: Exception) -> str:
    """Return the reason of a request without an answer, without the address that texts of aiohttp have."""
    if isinstance(error, aiohttp.InvalidURL):
        is_redirect = isinstance(error, aiohttp.RedirectClientError)
        return "it redirects to what is no address" if is_redirect else "it is no address"
    # Timeouts have no text of their own.
    text = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    return text or type(error).__name__


def trusting(ca_file: Path | None) -> aiohttp.TCPConnector:
    """Return connections that trust the authority in a file; None: those of the machine.

    Raises:
        ConnectorError: The file cannot be read.
    """
    try:
        return aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca_file))
    except OSError as error:
        raise ConnectorError(f"{ca_file} is no certificate: {error}; correct settings.ca_file") from error
