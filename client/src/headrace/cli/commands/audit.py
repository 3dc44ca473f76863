"""`headrace audit`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import msgspec
import typer

from headrace.cli import output
from headrace.cli.http_target import DEFAULT_URL, UrlOption, logged_in
from headrace.cli.target import PasswordOption, UsernameOption
from headrace.embedded.audit_trail import Event, Wanted, decoded, encoded, read_directory

_NEVER: Final = 2**64 - 1


def audit(
    url: UrlOption = DEFAULT_URL,
    username: UsernameOption = None,
    password: PasswordOption = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", "-d", help="Read the audit trail in this data directory instead; its server may be running."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Show events from this time on (ISO 8601; UTC unless it has a time zone)."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", help="Show events before this time (ISO 8601; UTC unless it has a time zone)."),
    ] = None,
    event: Annotated[
        str | None, typer.Option("--event", help="Kind of event to show: login, refusal or change.")
    ] = None,
    action: Annotated[
        str | None, typer.Option("--action", help="Action to show, such as create_user or login_with_password.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Name or id of the user who acted.")] = None,
    address: Annotated[str | None, typer.Option("--address", help="IP address of the client.")] = None,
    result: Annotated[
        str | None, typer.Option("--result", help="Result to show: ok, failed, begun, or the name of a status.")
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=100_000, help="Maximum number of events; the newest are shown.")
    ] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, oldest first.")] = False,
) -> None:
    """Show logins, refusals for missing permissions, and changes; oldest first."""
    wanted = Wanted(
        since=_micros(since, 0),
        until=_micros(until, _NEVER),
        event=event,
        action=action,
        user=user,
        address=address,
        result=result,
    )
    found = read_directory(data, wanted, count) if data is not None else _asked(url, username, password, wanted, count)
    found.reverse()
    if as_json:
        for one in found:
            output.stdout().out(encoded(one).decode().rstrip("\n"), highlight=False)
        return
    output.print_table(("time", "user", "from", "by", "action", "about", "result"), map(_row, found))


def _asked(url: str, username: str | None, password: str | None, wanted: Wanted, count: int) -> list[Event]:
    query: dict[str, Any] = {
        name: getattr(wanted, name) for name in ("event", "action", "user", "address", "result", "since")
    }
    query |= {"until": wanted.until if wanted.until != _NEVER else 0, "count": count}
    text = urlencode({name: value for name, value in query.items() if value is not None})
    with logged_in(url, username, password) as api:
        lines = api.ask("GET", f"/audit?{text}").splitlines()
    return [one for line in lines if (one := decoded(line)) is not None]


def _micros(text: str | None, default: int) -> int:
    if text is None:
        return default
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is not a time in ISO 8601: give a time such as 2026-11-23T05:00:00Z"
        ) from error
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * 1_000_000))


def _row(event: Event) -> tuple[object, ...]:
    user = event.username or ("-" if event.user_id is None else event.user_id)
    about = msgspec.json.encode(event.subject).decode() if event.subject else ""
    result = f"{event.result} (+{event.suppressed})" if event.suppressed else event.result
    return output.moment(event.at), _printable(str(user)), event.address, event.transport, event.action, about, result


def _printable(text: str) -> str:
    """Return untrusted text without terminal control characters."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
