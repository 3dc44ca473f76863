"""`headrace metadata status | members | nodes | log | snapshot | verify | reset-root`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import grpc
import typer

from headrace.cli import output
from headrace.cli.metadata_directory import print_records, verify_directory
from headrace.metadata_connection import (
    MetadataFileError,
    MetadataReplica,
    connected,
    explain,
    unavailable,
)
from headrace_metadata_client import MetadataTarget
from headrace_proto.catalog.v1 import Node, NodeStatus
from headrace_proto.metadata.v1 import (
    CONSISTENCY_LINEARIZABLE,
    CONSISTENCY_STALE,
    REPLICA_STATE_NORMAL,
    Command,
    Consistency,
    GetSnapshotRequest,
    GetStatusRequest,
    LogEntry,
    NodeRecord,
    NodesQuery,
    ProposeRequest,
    ReadLogRequest,
    ReadRequest,
    ReplicaState,
    ReplicaStatus,
    Reply,
    StateSnapshot,
)

Answer = TypeVar("Answer")

app = typer.Typer(
    name="metadata", help="Inspect and repair the replicas of the metadata service.", no_args_is_help=True
)

DEFAULT_ADDRESS = "127.0.0.1:8111"

# Status fields that only JSON output contains: with them the table would be too wide.
_STATUS_WITHOUT_COLUMN = frozenset({"cluster", "cluster_id", "started_at_micros"})

ReplicaOption = Annotated[
    list[str],
    typer.Option(
        "--replica",
        "-r",
        envvar="HEADRACE_METADATA_REPLICAS",
        help="host:port of the gRPC listener of a replica; repeatable.",
    ),
]
ClusterOption = Annotated[
    str, typer.Option("--cluster", envvar="HEADRACE_METADATA_CLUSTER", help="Name of the cluster.")
]
SecretOption = Annotated[
    Path | None,
    typer.Option("--secret-file", envvar="HEADRACE_METADATA_SECRET_FILE", help="File with the cluster's secret."),
]
AuthorityOption = Annotated[
    Path | None,
    typer.Option(
        "--authority",
        envvar="HEADRACE_METADATA_AUTHORITY",
        help="PEM file with the certificate authorities to trust; enables TLS.",
    ),
]
DirectoryOption = Annotated[
    Path | None,
    typer.Option(
        "--directory", "-d", help="Read this data directory of a replica instead; the replica may be running."
    ),
]


@app.command()
def status(
    replicas: ReplicaOption = [DEFAULT_ADDRESS],  # noqa: B006  (typer wants a list, and does not change it)
    cluster: ClusterOption = "headrace",
    secret_file: SecretOption = None,
    authority: AuthorityOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Show the status of each of the given replicas."""
    with _connected(replicas, cluster, secret_file, authority) as connections:
        records = [_status_record(address, answer) for address, answer in _from_all(connections, _status)]
    if as_json:
        output.print_json(records)
        return
    columns = [field for field in records[0] if field not in _STATUS_WITHOUT_COLUMN]
    output.print_table(
        columns, (["-" if record[column] is None else record[column] for column in columns] for record in records)
    )


@app.command()
def members(
    replicas: ReplicaOption = [DEFAULT_ADDRESS],  # noqa: B006
    cluster: ClusterOption = "headrace",
    secret_file: SecretOption = None,
    authority: AuthorityOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """List the members, as seen by the first replica that answers."""
    with _connected(replicas, cluster, secret_file, authority) as connections:
        address, answer = next(_from_all(connections, _status))
    primary = answer.primary if answer.HasField("primary") else None
    rows = [(member.replica, member.address, member.connected, member.replica == primary) for member in answer.members]
    if as_json:
        fields = ("replica", "address", "connected", "primary")
        output.print_json([dict(zip(fields, row, strict=True)) for row in rows])
        return
    output.print_table(
        ("replica", "address", f"connected to {address}", "primary"),
        (
            (replica, member, "yes" if reached else "no", "yes" if leads else "no")
            for replica, member, reached, leads in rows
        ),
    )


@app.command()
def nodes(
    replicas: ReplicaOption = [DEFAULT_ADDRESS],  # noqa: B006
    cluster: ClusterOption = "headrace",
    secret_file: SecretOption = None,
    authority: AuthorityOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """List the partition nodes and the number of partitions on each, as known by the first replica that answers."""

    def registered(replica: MetadataReplica) -> list[NodeRecord]:
        request = ReadRequest(consistency=CONSISTENCY_STALE, nodes=NodesQuery())
        answer = replica.stub.Read(request, metadata=replica.metadata, timeout=replica.timeout_seconds)
        return list(answer.nodes.nodes)

    with _connected(replicas, cluster, secret_file, authority) as connections:
        _, found = next(_from_all(connections, registered))
    fields = ("id", "name", "binary_address", "grpc_address", "shards")
    counts = ("replicas_count", "primaries_count", "leaving_count")
    rows = [
        {
            **{field: getattr(record.node, field) for field in fields},
            "status": _node_word(record.node),
            **{field: getattr(record, field) for field in counts},
            "lease_until_micros": record.lease_until_micros,
        }
        for record in found
    ]
    if as_json:
        output.print_json(rows)
        return
    titles = ("id", "name", "binary", "gRPC", "shards", "status", "replicas", "primaries", "leaving")
    output.print_table(titles, (tuple(row.values())[: len(titles)] for row in rows))


@app.command()
def log(
    replicas: ReplicaOption = [DEFAULT_ADDRESS],  # noqa: B006
    cluster: ClusterOption = "headrace",
    secret_file: SecretOption = None,
    authority: AuthorityOption = None,
    directory: DirectoryOption = None,
    first: Annotated[
        int,
        typer.Option("--from", min=0, help="Op number of the first entry to show, with --directory; 0 for the oldest."),
    ] = 0,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Maximum number of entries.")] = 20,
    as_json: output.JsonOption = False,
) -> None:
    """Show the last commands that a replica has applied, or the journal in its data directory."""
    if directory is not None:
        print_records(directory, first, count, as_json=as_json)
        return

    def last_commands(replica: MetadataReplica) -> list[LogEntry]:
        request = ReadLogRequest(count_max=count)
        answer = replica.stub.ReadLog(request, metadata=replica.metadata, timeout=replica.timeout_seconds)
        return list(answer.entries)

    with _connected(replicas, cluster, secret_file, authority) as connections:
        _, entries = next(_from_all(connections, last_commands))
    if as_json:
        fields = ("number", "timestamp_micros", "actor_user_id", "operation", "status", "version")
        output.print_json([{field: getattr(entry, field) for field in fields} for entry in entries])
        return
    output.print_table(
        ("number", "time", "operation", "by user", "status", "version"),
        (
            (
                entry.number,
                output.moment(entry.timestamp_micros),
                entry.operation,
                entry.actor_user_id,
                entry.status,
                entry.version,
            )
            for entry in entries
        ),
    )


@app.command()
def snapshot(
    file: Annotated[Path, typer.Argument(help="File to write, which must not exist. It will contain password hashes.")],
    replicas: ReplicaOption = [DEFAULT_ADDRESS],  # noqa: B006
    cluster: ClusterOption = "headrace",
    secret_file: SecretOption = None,
    authority: AuthorityOption = None,
) -> None:
    """Write the whole state to a file, including every command acknowledged before."""

    def current(replica: MetadataReplica) -> bytes:
        return _snapshot(replica, CONSISTENCY_LINEARIZABLE)

    with _connected(replicas, cluster, secret_file, authority) as connections:
        address, contents = next(_from_all(connections, current))
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(contents)
    except OSError as error:
        raise MetadataFileError(f"{file} cannot be written: {error.strerror}") from error
    state = StateSnapshot.FromString(contents)
    output.stdout().print(
        f"{len(contents):,} bytes from {address}: command {state.op}, version {state.catalog.version}", markup=False
    )


@app.command()
def verify(
    replicas: ReplicaOption = [DEFAULT_ADDRESS],  # noqa: B006
    cluster: ClusterOption = "headrace",
    secret_file: SecretOption = None,
    authority: AuthorityOption = None,
    directory: DirectoryOption = None,
) -> None:
    """Compare the states of the given replicas byte for byte, or check every file in a replica's data directory."""
    if directory is not None:
        raise typer.Exit(verify_directory(directory))

    def state(replica: MetadataReplica) -> bytes:
        return _snapshot(replica, CONSISTENCY_STALE)

    with _connected(replicas, cluster, secret_file, authority) as connections:
        answers = list(_from_all(connections, state))
    found = [(address, contents, StateSnapshot.FromString(contents)) for address, contents in answers]
    output.print_table(
        ("address", "command", "version", "SHA-256"),
        (
            (address, parsed.op, parsed.catalog.version, hashlib.sha256(contents).hexdigest())
            for address, contents, parsed in found
        ),
    )
    # Replicas at different commands differ legitimately.
    by_command: dict[int, set[bytes]] = {}
    for _, contents, parsed in found:
        by_command.setdefault(parsed.op, set()).add(contents)
    if any(len(states) > 1 for states in by_command.values()):
        output.stderr().print("[bold red]error:[/] replicas that applied the same commands hold different states")
        raise typer.Exit(1)
    if len(by_command) > 1:
        output.stderr().print("the replicas are at different commands: compare again while nothing changes")


@app.command("reset-root")
def reset_root(
    replicas: ReplicaOption = [],  # noqa: B006
    cluster: ClusterOption = "headrace",
    secret_file: SecretOption = None,
    authority: AuthorityOption = None,
    data: Annotated[
        str | None, typer.Option("--data", "-d", help="Data directory of a stopped embedded server.")
    ] = None,
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", help="File with the new password; without it, a password is generated."),
    ] = None,
) -> None:
    """Set a new password for root, delete its access tokens, end its logins, and activate it.

    Operates on the data directory of a stopped server, or on the replicas of a cluster, which order it like any other
    command. Access to the data directory or the secret of the cluster already grants full control.
    """
    # Importing the server is slow, and no other command here needs it.
    from headrace.embedded import root_reset  # noqa: PLC0415

    if data is None and not replicas:
        raise typer.BadParameter("give --data DIRECTORY of a stopped server, or --replica host:port of a cluster")
    password, is_generated = root_reset.new_password(password_file)
    if data is not None:
        name = root_reset.reset_in_directory(data, password)
    else:
        with _connected(replicas, cluster, secret_file, authority) as connections:
            _, contents = next(_from_all(connections, lambda replica: _snapshot(replica, CONSISTENCY_LINEARIZABLE)))

            def propose(command: Command) -> Reply:
                return next(_from_all(connections, lambda replica: _propose(replica, command)))[1]

            name = root_reset.reset_through(propose, StateSnapshot.FromString(contents).catalog, password)
    output.stdout().print(
        f"root is {name!r} and active; its logins have ended, its access tokens are deleted", markup=False
    )
    if is_generated:
        output.stdout().print(f"password: {password}", markup=False, highlight=False)


@contextmanager
def _connected(
    replicas: list[str], cluster: str, secret_file: Path | None, authority: Path | None
) -> Iterator[tuple[MetadataReplica, ...]]:
    try:
        secret = secret_file.read_text(encoding="utf-8").rstrip("\r\n") if secret_file is not None else None
    except OSError as error:
        raise MetadataFileError(f"{secret_file} cannot be read: {error.strerror}") from error
    target = MetadataTarget(addresses=tuple(replicas), cluster=cluster, secret=secret, authority=authority)
    with connected(target) as connections:
        yield connections


def _from_all(
    connections: tuple[MetadataReplica, ...], ask: Callable[[MetadataReplica], Answer]
) -> Iterator[tuple[str, Answer]]:
    """Ask the replicas one after the other; report those that do not answer, and fail if none does."""
    problems: list[str] = []
    for replica in connections:
        try:
            answer = ask(replica)
        except grpc.RpcError as error:
            problems.append(explain(replica.address, error))
            if len(connections) > 1:
                output.stderr().print(problems[-1], markup=False)
            continue
        yield replica.address, answer
    if len(problems) == len(connections):
        raise unavailable(problems)


def _status(replica: MetadataReplica) -> ReplicaStatus:
    return replica.stub.GetStatus(GetStatusRequest(), metadata=replica.metadata, timeout=replica.timeout_seconds)


def _propose(replica: MetadataReplica, command: Command) -> Reply:
    request = ProposeRequest(command=command)
    return replica.stub.Propose(request, metadata=replica.metadata, timeout=replica.timeout_seconds).reply


def _snapshot(replica: MetadataReplica, consistency: Consistency.ValueType) -> bytes:
    request = GetSnapshotRequest(consistency=consistency)
    # No overall timeout: a large state may take any time.
    return b"".join(chunk.contents for chunk in replica.stub.GetSnapshot(request, metadata=replica.metadata))


def _state_word(answer: ReplicaStatus) -> str:
    if answer.state == REPLICA_STATE_NORMAL:
        return "primary" if answer.HasField("primary") and answer.primary == answer.replica else "backup"
    return ReplicaState.Name(answer.state).removeprefix("REPLICA_STATE_").lower().replace("_", " ")


def _node_word(node: Node) -> str:
    word = NodeStatus.Name(node.status).removeprefix("NODE_STATUS_").lower()
    return f"{word}, draining" if node.is_draining else word


def _status_record(address: str, answer: ReplicaStatus) -> dict[str, Any]:
    """Return the status of a replica, in the order of the columns."""
    return {
        "address": address,
        "cluster": answer.cluster_name,
        "cluster_id": answer.cluster_id,
        "replica": answer.replica,
        "state": _state_word(answer),
        "view": answer.view,
        "primary": answer.primary if answer.HasField("primary") else None,
        "op": answer.op,
        "commit": answer.commit,
        "applied": answer.applied,
        "checkpoint": answer.checkpoint,
        "version": answer.version,
        "release": answer.release,
        "storage": "full" if answer.storage_full else "ok",
        "started_at_micros": answer.started_at_micros,
    }
