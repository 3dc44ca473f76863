"""`headrace cluster`."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

import click

from headrace.cli import output
from headrace.cli.family import family
from headrace.cli.operating_documents import ClusterDocument, ReplicaDocument
from headrace.cli.options.server_options import with_http_target
from headrace.cli.output import Form, with_form
from headrace.cli.servers.http_target import logged_in
from headrace.cli.servers.target import Target

_WORKING: Final = frozenset({"primary", "backup"})
_ABSENT: Final = frozenset({"silent", "unreachable"})


@family("cluster", "Show the state of a cluster, as a gateway sees it.")
def app() -> None:
    """Do nothing: the work is in the commands."""


@app.command()
@with_http_target
@with_form
def status(target: Target, url: str, form: Form) -> None:
    """Show a gateway, the partition nodes and the replicas of the metadata service, and what fails.

    The exit status is 1 if something fails. Needs the permission to read the server. An embedded server is a cluster of
    one node and one replica.
    """
    with logged_in(url, target) as api:
        document: ClusterDocument = api.ask_json("GET", "/cluster")
    document["problems"] = problems_of(document)
    output.show(form, document, lambda: _print(document))
    if document["problems"]:
        raise click.exceptions.Exit(1)


def problems_of(cluster: ClusterDocument) -> list[str]:
    """Return what fails in a cluster, each as a sentence."""
    problems = [] if cluster["unready"] is None else [f"clients should use another gateway: {cluster['unready']}"]
    absent = [node for node in cluster["nodes"] if node["state"] in _ABSENT]
    if absent:
        names = ", ".join(node["name"] for node in absent)
        count = sum(node["partitions_count"] for node in absent)
        partitions = "1 partition" if count == 1 else f"{count:,} partitions"
        problems.append(f"no contact with {names}: {partitions} cannot be read or written")
    replicas = cluster["replicas"]
    working = sum(replica["state"] in _WORKING for replica in replicas)
    if working < len(replicas):
        outcome = (
            "the service works, with less redundancy"
            if 2 * working > len(replicas)
            else "without a majority, changes and logins fail"
        )
        problems.append(f"{working} of {len(replicas)} metadata replicas work: {outcome}")
    problems += [
        f"the disk of the metadata replica {replica['address'] or 'in this process'} is full"
        for replica in replicas
        if replica["is_storage_full"]
    ]
    return problems


def _storage(replica: ReplicaDocument) -> str:
    if replica["view"] is None:
        return "-"
    return "full" if replica["is_storage_full"] else "ok"


def _print(cluster: ClusterDocument) -> None:
    kind = "gateway" if cluster["kind"] == "gateway" else "server"
    output.print_table(
        ("cluster", kind, "release", "state", "catalog"),
        [
            (
                cluster["name"],
                cluster["process_name"],
                cluster["release"],
                "ready" if cluster["unready"] is None else "not ready",
                f"version {cluster['catalog_version']:,}",
            )
        ],
    )
    click.echo()
    output.print_table(
        ("node", "state", "partitions", "shards", "address"),
        [
            (node["name"], node["state"], node["partitions_count"], node["shards_count"], node["address"] or "-")
            for node in sorted(cluster["nodes"], key=itemgetter("name"))
        ],
    )
    click.echo()
    output.print_table(
        ("metadata replica", "state", "view", "commit", "applied", "release", "storage"),
        [
            (
                replica["address"] or "in this process",
                replica["state"],
                output.or_dash(replica["view"]),
                output.or_dash(replica["commit"]),
                output.or_dash(replica["applied"]),
                output.or_dash(replica["release"]),
                _storage(replica),
            )
            for replica in cluster["replicas"]
        ],
    )
    if cluster["problems"]:
        click.echo()
        for problem in cluster["problems"]:
            click.echo(f"{output.coloured('fail', 'red')}  {output.paragraph(problem, indent=6)}")
