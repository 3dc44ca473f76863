"""`headrace audit`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import click
import msgspec

from headrace.cli import output
from headrace.cli.options.server_options import with_http_target
from headrace.cli.output import Form, with_form
from headrace.cli.parameters import WholeNumber
from headrace.cli.servers.http_target import logged_in
from headrace.cli.servers.target import Target
from headrace_embedded.audit_trail import AuditFilter, Event, decoded, encoded, read_directory

_NEVER: Final = 2**64 - 1


@click.command("audit")
@click.option(
    "--data",
    "-d",
    type=click.Path(path_type=Path),
    help="Read the audit trail in this data directory instead; its server may be running.",
)
@click.option("--since", help="Show events from this time on (ISO 8601; UTC unless it has a time zone).")
@click.option("--until", help="Show events before this time (ISO 8601; UTC unless it has a time zone).")
@click.option("--event", type=click.Choice(["login", "refusal", "change"]), help="Kind of event to show.")
@click.option("--action", help="Action to show, such as create_user or login_with_password.")
@click.option("--user", help="Name or id of the user who acted.")
@click.option("--address", help="IP address of the client.")
@click.option("--result", help="Result to show: ok, failed, begun, or the name of a status.")
@click.option(
    "--count",
    "-n",
    type=WholeNumber(1, 100_000),
    default=1000,
    show_default=True,
    help="Maximum number of events; the newest are shown.",
)
@with_http_target
@with_form
def app(
    target: Target,
    form: Form,
    url: str,
    data: Path | None,
    since: str | None,
    until: str | None,
    event: str | None,
    action: str | None,
    user: str | None,
    address: str | None,
    result: str | None,
    count: int,
) -> None:
    """Show logins, refusals for missing permissions, and changes; oldest first.

    JSON is one object per line, YAML one document per event.
    """
    criteria = AuditFilter(
        since=_micros("--since", since, 0),
        until=_micros("--until", until, _NEVER),
        event=event,
        action=action,
        user=user,
        address=address,
        result=result,
    )
    found = read_directory(data, criteria, count) if data is not None else _asked(url, target, criteria, count)
    found.reverse()
    if form is not Form.TABLE:
        for one in found:
            if form is Form.JSON:
                click.echo(encoded(one).decode().rstrip("\n"))
            else:
                click.echo("---")
                output.print_yaml(msgspec.json.decode(encoded(one)))
        return
    output.print_table(("time", "user", "from", "by", "action", "about", "result"), map(_row, found))


def _asked(url: str, target: Target, criteria: AuditFilter, count: int) -> list[Event]:
    query: dict[str, Any] = {
        name: getattr(criteria, name) for name in ("event", "action", "user", "address", "result", "since")
    }
    query |= {"until": criteria.until if criteria.until != _NEVER else 0, "count": count}
    text = urlencode({name: value for name, value in query.items() if value is not None})
    with logged_in(url, target) as api:
        lines = api.ask("GET", f"/audit?{text}").splitlines()
    return [one for line in lines if (one := decoded(line)) is not None]


def _micros(option: str, text: str | None, default: int) -> int:
    if text is None:
        return default
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(
            f"{option}: {text!r} is not a time in ISO 8601: give a time such as 2026-11-23T05:00:00Z"
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
