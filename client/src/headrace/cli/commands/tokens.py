"""`headrace token create | list | delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli import output
from headrace.cli.asking import confirm, with_yes
from headrace.cli.documents import TokenDocument, token_document
from headrace.cli.errors import CommandError, those_there
from headrace.cli.family import family
from headrace.cli.options.server_options import with_target
from headrace.cli.output import Form, with_form
from headrace.cli.parameters import EXPIRY, NewName
from headrace.cli.servers.target import Target
from headrace_core import (
    ServerError,
    decode_access_tokens,
    decode_raw_access_token,
    encode_create_personal_access_token,
    encode_delete_personal_access_token,
    encode_get_personal_access_tokens,
)

if TYPE_CHECKING:
    from headrace_settings import Expiry

_NEVER_MICROS = 2**64 - 1


@family("token", "Manage the personal access tokens of the user that is logged in.")
def app() -> None:
    """Do nothing: the work is in the commands."""


@app.command()
@click.argument("name", type=NewName("a token", 3, 30))
@click.option(
    "--expiry", type=EXPIRY, help='Time after which it is invalid, such as "30 days"; otherwise it stays valid.'
)
@with_target
@with_form
def create(target: Target, form: Form, name: str, expiry: Expiry | None) -> None:
    """Create an access token, and print it: it cannot be shown again."""
    expiry_micros = 0 if expiry is None or expiry.micros == _NEVER_MICROS else expiry.micros
    with target.connected() as client:
        try:
            answer = client.request(*encode_create_personal_access_token(name=name, expiry_micros=expiry_micros))
        except ServerError as error:
            if error.name != "PersonalAccessTokenAlreadyExists":
                raise
            raise CommandError(f"there is a token {name!r} already") from error
        known = {one.name: one for one in decode_access_tokens(client.request(*encode_get_personal_access_tokens()))}
    token = decode_raw_access_token(answer)
    expires_at_micros = known[name].expires_at_micros if name in known else None
    document: TokenDocument = {
        "name": name,
        "expires_at_micros": expires_at_micros,
        "expires_at": output.optional_timestamp(expires_at_micros),
        "token": token,
    }
    output.show(form, document, lambda: click.echo(token))


@app.command("list")
@with_target
@with_form
def list_tokens(target: Target, form: Form) -> None:
    """List the access tokens, without their secrets."""
    with target.connected() as client:
        found = decode_access_tokens(client.request(*encode_get_personal_access_tokens()))
    output.show(
        form,
        [token_document(token) for token in found],
        lambda: output.print_table(
            ("name", "expires"),
            [(token.name, output.date(token.expires_at_micros) if token.expires_at_micros else "-") for token in found],
        ),
    )


@app.command()
@click.argument("name")
@with_target
@with_yes
def delete(target: Target, name: str, yes: bool) -> None:
    """Delete an access token, which ends the logins with it."""
    with target.connected() as client:
        names = [token.name for token in decode_access_tokens(client.request(*encode_get_personal_access_tokens()))]
        if name not in names:
            raise CommandError(
                f"there is no token {name!r} {those_there(names, otherwise='headrace token create NAME')}"
            )
        confirm(f"delete access token {name!r}", yes=yes)
        client.request(*encode_delete_personal_access_token(name=name))
    output.say(f"deleted access token {name!r}")
