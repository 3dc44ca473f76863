"""`headrace context add | list | use | show | remove`."""

from __future__ import annotations

import click

from headrace.cli import output
from headrace.cli.asking import confirm, with_yes
from headrace.cli.documents import ContextDocument
from headrace.cli.errors import CommandError
from headrace.cli.family import family
from headrace.cli.options import completing
from headrace.cli.output import Form, or_dash, with_form
from headrace.cli.parameters import Address, NewName
from headrace.cli.servers.contexts import Context, Contexts
from headrace.cli.servers.target import ask_password

_NAME = click.argument("name", shell_complete=completing.contexts)


@family("context", "Manage named servers with their credentials.")
def app() -> None:
    """Do nothing: the work is in the commands."""


@app.command()
@click.argument("name", type=NewName("a context"))
@click.option("--server", "-s", type=Address(), required=True, help="Address of the binary protocol: host:port.")
@click.option("--username", "-u", help="User to log in as.")
@click.option(
    "--password",
    envvar="HEADRACE_PASSWORD",
    help="Its password; without it, a terminal is asked. Other users see command lines: prefer HEADRACE_PASSWORD.",
)
@click.option(
    "--token",
    envvar="HEADRACE_TOKEN",
    help="Personal access token, in place of a user. Prefer HEADRACE_TOKEN.",
)
@click.option("--description", default="", help="What this server is.")
@click.option("--use/--no-use", "use", default=None, help="Use it from now on.  [default: if it is the first]")
@click.option("--replace", is_flag=True, help="Replace the context of this name.")
def add(
    name: str,
    server: str,
    username: str | None,
    password: str | None,
    token: str | None,
    description: str,
    use: bool | None,
    replace: bool,
) -> None:
    """Add a context: a server, and how to log in there.

    The secret goes to the keyring of the system if the package keyring is installed and has one; otherwise to the file
    of contexts, which no other user can read.
    """
    contexts = Contexts.load()
    if name in contexts.by_name and not replace:
        raise CommandError(f"there is a context {name!r} already: --replace replaces it")
    if username is None:
        context, secret = Context(server, secret_kind="token" if token else None, description=description), token
    elif token is not None:
        raise click.UsageError("--token and --username (or their variables) exclude each other: give one of them")
    else:
        secret = password if password is not None else ask_password(username)
        context = Context(server, username, "password", description=description)
    stored = contexts.add(name, context, secret)
    if use or (use is None and contexts.current is None):
        contexts.current = name
    contexts.save()
    where = {"keyring": "in the keyring", "file": f"in {contexts.path}", None: "nowhere: there is none"}
    in_use = ", now in use" if contexts.current == name else ""
    output.say(f"added context {name!r}{in_use}; its secret is {where[stored.secret_in]}")


@app.command("list")
@with_form
def list_contexts(form: Form) -> None:
    """List the contexts; a star marks the one in use."""
    contexts = Contexts.load()
    documents = [_document(contexts, name) for name in contexts.by_name]
    output.show(
        form,
        documents,
        lambda: output.print_table(
            ("", "name", "server", "login", "description"),
            [
                ("*" if one["is_current"] else "", one["name"], one["server"], _login(one), one["description"])
                for one in documents
            ],
        ),
    )


@app.command()
@_NAME
def use(name: str) -> None:
    """Use a context from now on, wherever no option and no variable says something else."""
    contexts = Contexts.load()
    context = contexts.get(name)
    contexts.current = name
    contexts.save()
    output.say(f"now in use: {name!r}, {context.server}")


@app.command()
@click.argument("name", required=False, shell_complete=completing.contexts)
@with_form
def show(form: Form, name: str | None) -> None:
    """Show a context, by default the one in use. Secrets are not shown."""
    contexts = Contexts.load()
    chosen = name if name is not None else contexts.current
    if chosen is None:
        raise CommandError("no context is in use: headrace context use NAME")
    contexts.get(chosen)
    document = _document(contexts, chosen)
    output.show(
        form,
        document,
        lambda: output.print_table(
            ("property", "value"), [(key.replace("_", " "), or_dash(value)) for key, value in document.items()]
        ),
    )


@app.command()
@_NAME
@with_yes
def remove(name: str, yes: bool) -> None:
    """Remove a context with its secret."""
    contexts = Contexts.load()
    context = contexts.get(name)
    confirm(f"remove context {name!r} of {context.server}", yes=yes)
    contexts.remove(name)
    contexts.save()
    output.say(f"removed context {name!r}")


def _document(contexts: Contexts, name: str) -> ContextDocument:
    context = contexts.get(name)
    return {
        "name": name,
        "is_current": contexts.current == name,
        "server": context.server,
        "username": context.username,
        "secret_kind": context.secret_kind,
        "secret_in": context.secret_in,
        "description": context.description,
    }


def _login(one: ContextDocument) -> str:
    if one["username"] is not None:
        return one["username"]
    return "token" if one["secret_kind"] is not None else "-"
