"""Commands of `headrace connect` that change the configurations of connectors that run."""

from __future__ import annotations

import getpass
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast
from urllib.parse import quote

import click

from headrace.cli import output
from headrace.cli.errors import CommandError
from headrace.cli.output import Form, with_form
from headrace.cli.parameters import WholeNumber
from headrace.cli.servers.http_target import Api, HttpError
from headrace_connectors.commands.documents import AppliedDocument
from headrace_connectors.commands.options import CONNECTOR_ARGUMENT, converted, with_connectors
from headrace_connectors_api import ConnectorVersionAnswer, ConnectorVersionsAnswer

_COMMENT: Final = click.option("--comment", "-m", default="", help="Reason of the change, kept with it.")
_MAPPING: Final = click.option("--mapping", is_flag=True, help="KEY is the name of a mapping.")
# Mappings come first: a source that routes by one reads it when it starts.
_TABLES: Final = (("mappings", "mapping"), ("sources", "source"), ("sinks", "sink"))


@click.command()
@CONNECTOR_ARGUMENT
@_MAPPING
@with_connectors
@with_form
def versions(key: str, api: Api, form: Form, *, mapping: bool) -> None:
    """List the versions of a connector's configuration, the newest first. With --json, each has its definition."""
    document = api.ask_json("GET", f"{_path(key, mapping=mapping)}/versions")
    found = converted(document, ConnectorVersionsAnswer)
    output.show(form, document, lambda: _print_versions(found))


@click.command()
@CONNECTOR_ARGUMENT
@click.argument("number", metavar="VERSION", type=WholeNumber(1, 2**31))
@_MAPPING
@_COMMENT
@with_connectors
@with_form
def activate(key: str, number: int, comment: str, api: Api, form: Form, *, mapping: bool) -> None:
    """Put a version of a connector's configuration into effect, such as an older one.

    The connector is stopped, and started with it. Others go on.
    """
    path = f"{_path(key, mapping=mapping)}/versions/{number}/activate"
    _show(form, api.ask_json("POST", path, {"comment": comment}, headers=_author()))


@click.command()
@CONNECTOR_ARGUMENT
@_MAPPING
@_COMMENT
@with_connectors
@with_form
def rollback(key: str, comment: str, api: Api, form: Form, *, mapping: bool) -> None:
    """Put the version of a connector's configuration into effect that was active before."""
    path = f"{_path(key, mapping=mapping)}/rollback"
    _show(form, api.ask_json("POST", path, {"comment": comment}, headers=_author()))


class _Change(NamedTuple):
    kind: Literal["source", "sink", "mapping"]
    key: str
    definition: dict[str, Any]
    active: dict[str, Any] | None
    epoch: int | None
    """State that was seen; None: there is none."""

    @property
    def action(self) -> Literal["created", "changed", "unchanged"]:
        if self.active is None:
            return "created"
        return "unchanged" if self.active == self.definition else "changed"

    @property
    def path(self) -> str:
        return f"{_path(self.key, mapping=self.kind == 'mapping')}/versions"

    @property
    def body(self) -> dict[str, Any]:
        kind = {} if self.kind == "mapping" else {"kind": self.kind}
        return {"definition": self.definition, **kind}


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Check the changes and list them, and make none.")
@_COMMENT
@with_connectors
@with_form
def apply(file: Path, comment: str, api: Api, form: Form, *, dry_run: bool) -> None:
    """Make the connectors and mappings of a pipeline file those of a process that runs, each as a new version.

    Tables that are the same already are left alone, and so are connectors that the file does not have. Everything is
    checked first: if one table has a mistake, nothing is changed. Tables refer to variables and files of the process.
    """
    tables = list(_tables(file))
    changes = [_seen(api, *table) for table in tables]
    wanted = [one for one in changes if one.action != "unchanged"]
    refusals = []
    for one in wanted:
        try:
            api.ask("POST", f"{one.path}?check=true", one.body)
        except HttpError as error:
            refusals.append(str(error))
    if refusals:
        raise CommandError("\n".join((*refusals, f"nothing was changed: correct {file}")))
    applied = [_applied(api, one, comment, dry_run=dry_run) for one in changes]
    output.show(form, applied, lambda: _print_applied(applied, dry_run=dry_run))


def _tables(file: Path) -> Iterator[tuple[Literal["source", "sink", "mapping"], str, dict[str, Any]]]:
    try:
        tree = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}", status=2) from error
    # Dates of TOML are texts in JSON, and in what is compared with it.
    plain = json.loads(json.dumps(tree, default=str))
    for table, kind in _TABLES:
        for key, definition in _table(file, plain, table, f"{table}.NAME").items():
            _table(file, plain[table], key, f"{table}.{key}")
            yield cast("Any", kind), key, definition


def _table(file: Path, tree: dict[str, Any], key: str, header: str) -> dict[str, Any]:
    """Return a table of a tree, empty if there is none; refuse anything else, such as the list that ``[[key]]`` is."""
    found = tree.get(key, {})
    if not isinstance(found, dict):
        raise CommandError(f"{file}: {key} is not a table: write [{header}]", status=2)
    return found


def _seen(api: Api, kind: Literal["source", "sink", "mapping"], key: str, definition: dict[str, Any]) -> _Change:
    try:
        document = api.ask_json("GET", f"{_path(key, mapping=kind == 'mapping')}/versions")
    except HttpError as error:
        if error.http_status != 404:
            raise
        return _Change(kind, key, definition, None, None)
    found = converted(document, ConnectorVersionsAnswer)
    active = next((one.definition for one in found.versions if one.number == found.active), None)
    return _Change(kind, key, definition, active, found.epoch)


def _applied(api: Api, change: _Change, comment: str, *, dry_run: bool) -> AppliedDocument:
    document = AppliedDocument(kind=change.kind, key=change.key, action=change.action, version=None)
    if change.action == "unchanged" or dry_run:
        return document
    condition = {"If-None-Match": "*"} if change.epoch is None else {"If-Match": f'"{change.epoch}"'}
    answer = api.ask_json("POST", change.path, {**change.body, "comment": comment}, headers=_author() | condition)
    return {**document, "version": answer["active"]}


def _path(key: str, *, mapping: bool) -> str:
    return f"/{'mappings' if mapping else 'connectors'}/{quote(key, safe='')}"


def _author() -> dict[str, str]:
    """Return the header that names the author: the user of this machine, as far as it is known."""
    try:
        return {"Headrace-Author": quote(getpass.getuser())}
    except (OSError, KeyError):
        return {}


def _show(form: Form, document: Any) -> None:
    found = converted(document, ConnectorVersionsAnswer)
    output.show(form, document, lambda: click.echo(f"{found.key}: version {found.active} is active"))


def _print_versions(found: ConnectorVersionsAnswer) -> None:
    def state(version: ConnectorVersionAnswer) -> str:
        active = "active" if version.number == found.active else ""
        deleted = "deletion" if version.definition is None else ""
        return ", ".join(filter(None, (active, deleted))) or "-"

    output.print_table(
        ("version", "state", "made", "author", "from", "comment"),
        [
            (
                one.number,
                state(one),
                output.local_date(one.at),
                one.author,
                one.origin,
                one.comment or "-",
            )
            for one in found.versions
        ],
    )


def _print_applied(applied: list[AppliedDocument], *, dry_run: bool) -> None:
    rows = [
        (
            one["kind"],
            one["key"],
            f"to be {one['action']}" if dry_run and one["action"] != "unchanged" else one["action"],
            output.or_dash(one["version"]),
        )
        for one in applied
    ]
    output.print_table(("kind", "name", "action", "version"), rows)
