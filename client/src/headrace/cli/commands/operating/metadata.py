"""`headrace metadata status | members | nodes | log | snapshot | verify | reset-root`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click
import grpc

from headrace.cli import output
from headrace.cli.errors import CommandError
from headrace.cli.family import family
from headrace.cli.metadata_directory import print_records, verify_directory
from headrace.cli.operating_documents import ReplicaStatusDocument
from headrace.cli.output import Form, with_form
from headrace.cli.parameters import COUNT, WholeNumber
from headrace.cli.transfer.state import sync_directory
from headrace.metadata_connection import (
    MetadataFileError,
    MetadataReplica,
    connected,
    explain,
    unavailable,
)
from headrace_metadata_client import MetadataTarget
from headrace_proto.catalog.v1 import Node, NodeStatus, Snapshot
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

DEFAULT_ADDRESS = "127.0.0.1:8111"

# The other fields are in JSON and YAML only: with them the table would be too wide.
_STATUS_COLUMNS: Final = (
    "address",
    "replica",
    "state",
    "view",
    "primary",
    "op",
    "commit",
    "applied",
    "checkpoint",
    "version",
    "release",
    "storage",
)


class Replicas(NamedTuple):
    """Replicas of a cluster, and what is needed to call them."""

    addresses: tuple[str, ...]
    cluster: str
    secret_file: Path | None
    authority: Path | None


def _with_replicas(*defaults: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options for the replicas of a cluster to a command, which gets a parameter `replicas`."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @click.option(
            "--replica",
            "-r",
            "addresses",
            multiple=True,
            default=defaults,
            show_default=bool(defaults),
            envvar="HEADRACE_METADATA_REPLICAS",
            help="host:port of the gRPC listener of a replica; repeatable.",
        )
        @click.option(
            "--cluster",
            envvar="HEADRACE_METADATA_CLUSTER",
            default="headrace",
            show_default=True,
            help="Name of the cluster.",
        )
        @click.option(
            "--secret-file",
            envvar="HEADRACE_METADATA_SECRET_FILE",
            type=click.Path(path_type=Path),
            help="File with the cluster's secret.",
        )
        @click.option(
            "--authority",
            envvar="HEADRACE_METADATA_AUTHORITY",
            type=click.Path(path_type=Path),
            help="PEM file with the certificate authorities to trust; enables TLS.",
        )
        @wraps(function)
        def command(
            *, addresses: tuple[str, ...], cluster: str, secret_file: Path | None, authority: Path | None, **rest: Any
        ) -> None:
            function(replicas=Replicas(addresses, cluster, secret_file, authority), **rest)

        return command

    return decorate


def _directory_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--directory",
        "-d",
        type=click.Path(path_type=Path),
        help="Read this data directory of a replica instead; the replica may be running.",
    )(function)


@family("metadata", "Inspect and repair the replicas of the metadata service.")
def app() -> None:
    """Do nothing: the work is in the commands."""


@app.command()
@_with_replicas(DEFAULT_ADDRESS)
@with_form
def status(replicas: Replicas, form: Form) -> None:
    """Show the status of each of the given replicas.

    The exit status is 1 if one of them does not answer.
    """
    with _connected(replicas) as connections:
        answers = dict(_from_all(connections, _status))
        records = [_status_record(replica.address, answers.get(replica.address)) for replica in connections]
    rows = [[output.or_dash(record.get(column)) for column in _STATUS_COLUMNS] for record in records]
    output.show(form, records, lambda: output.print_table(_STATUS_COLUMNS, rows))
    if len(answers) < len(records):
        raise click.exceptions.Exit(1)


@app.command()
@_with_replicas(DEFAULT_ADDRESS)
@with_form
def members(replicas: Replicas, form: Form) -> None:
    """List the members, as seen by the first replica that answers."""
    with _connected(replicas) as connections:
        address, answer = next(_from_all(connections, _status))
    primary = answer.primary if answer.HasField("primary") else None
    rows = [(member.replica, member.address, member.connected, member.replica == primary) for member in answer.members]
    fields = ("replica", "address", "connected", "primary")
    output.show(
        form,
        [dict(zip(fields, row, strict=True)) for row in rows],
        lambda: output.print_table(
            ("replica", "address", f"connected to {address}", "primary"),
            (
                (replica, member, "yes" if reached else "no", "yes" if leads else "no")
                for replica, member, reached, leads in rows
            ),
        ),
    )


@app.command()
@_with_replicas(DEFAULT_ADDRESS)
@with_form
def nodes(replicas: Replicas, form: Form) -> None:
    """List the partition nodes and the number of partitions on each, as known by the first replica that answers."""

    def registered(replica: MetadataReplica) -> list[NodeRecord]:
        request = ReadRequest(consistency=CONSISTENCY_STALE, nodes=NodesQuery())
        answer = replica.stub.Read(request, metadata=replica.metadata, timeout=replica.timeout_seconds)
        return list(answer.nodes.nodes)

    with _connected(replicas) as connections:
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
    titles = ("id", "name", "binary", "gRPC", "shards", "status", "replicas", "primaries", "leaving")
    output.show(form, rows, lambda: output.print_table(titles, (tuple(row.values())[: len(titles)] for row in rows)))


@app.command()
@_with_replicas(DEFAULT_ADDRESS)
@_directory_option
@click.option(
    "--from",
    "first",
    type=WholeNumber(0, 2**63),
    default=0,
    show_default=True,
    help="Op number of the first entry to show, with --directory; 0 for the oldest.",
)
@click.option("--count", "-n", type=COUNT, default=20, show_default=True, help="Maximum number of entries.")
@with_form
def log(replicas: Replicas, form: Form, directory: Path | None, first: int, count: int) -> None:
    """Show the last commands that a replica has applied, or the journal in its data directory."""
    if directory is not None:
        print_records(directory, first, count, form)
        return

    def last_commands(replica: MetadataReplica) -> list[LogEntry]:
        request = ReadLogRequest(count_max=count)
        answer = replica.stub.ReadLog(request, metadata=replica.metadata, timeout=replica.timeout_seconds)
        return list(answer.entries)

    with _connected(replicas) as connections:
        _, entries = next(_from_all(connections, last_commands))
    fields = ("number", "timestamp_micros", "actor_user_id", "operation", "status", "version")
    output.show(
        form,
        [{field: getattr(entry, field) for field in fields} for entry in entries],
        lambda: output.print_table(
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
        ),
    )


@app.command()
@click.argument("file", type=click.Path(path_type=Path))
@_with_replicas(DEFAULT_ADDRESS)
def snapshot(replicas: Replicas, file: Path) -> None:
    """Write the whole state to a file, including every command acknowledged before.

    FILE must not exist. It will contain password hashes.
    """

    def current(replica: MetadataReplica) -> bytes:
        return _snapshot(replica, CONSISTENCY_LINEARIZABLE)

    with _connected(replicas) as connections:
        address, contents = next(_from_all(connections, current))
    try:
        _archive(file, contents)
    except OSError as error:
        raise MetadataFileError(f"{file} cannot be written: {error.strerror}") from error
    state = StateSnapshot.FromString(contents)
    output.stdout().print(
        f"{len(contents):,} bytes from {address}: command {state.op}, version {state.catalog.version}", markup=False
    )


@app.command()
@_with_replicas(DEFAULT_ADDRESS)
@_directory_option
def verify(replicas: Replicas, directory: Path | None) -> None:
    """Compare the states of the given replicas byte for byte, or check every file in a replica's data directory.

    The exit status is 1 if they differ, if a replica does not answer, or if a file is damaged.
    """
    if directory is not None:
        raise click.exceptions.Exit(verify_directory(directory))

    def state(replica: MetadataReplica) -> bytes:
        return _snapshot(replica, CONSISTENCY_STALE)

    with _connected(replicas) as connections:
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
        raise CommandError("replicas that applied the same commands hold different states")
    if len(found) < len(connections):
        raise CommandError(f"only {len(found)} of {len(connections)} replicas answered: the others were not compared")
    if len(by_command) > 1:
        output.say("the replicas are at different commands: compare again while nothing changes")


@app.command("reset-root")
@_with_replicas()
@click.option("--data", "-d", help="Data directory of a stopped embedded server.")
@click.option(
    "--password-file",
    type=click.Path(path_type=Path),
    help="File with the new password; without it, a password is generated.",
)
def reset_root(replicas: Replicas, data: str | None, password_file: Path | None) -> None:
    """Set a new password for root, delete its access tokens, end its logins, and activate it.

    Operates on the data directory of a stopped server, or on the replicas of a cluster, which order it like any other
    command. Access to the data directory or the secret of the cluster already grants full control.
    """
    # Importing the server is slow, and no other command here needs it.
    from headrace_embedded import root_reset  # noqa: PLC0415

    if data is None and not replicas.addresses:
        raise click.UsageError("give --data DIRECTORY of a stopped server, or --replica host:port of a cluster")
    password, is_generated = root_reset.new_password(password_file)
    try:
        name = root_reset.reset_in_directory(data, password) if data is not None else _reset_at(replicas, password)
    except KeyboardInterrupt:
        output.say(root_reset.UNFINISHED)
        raise
    output.stdout().print(
        f"root is {name!r} and active; its logins have ended, its access tokens are deleted", markup=False
    )
    if is_generated:
        output.stdout().print(f"password: {password}", markup=False, highlight=False)


def _reset_at(replicas: Replicas, password: str) -> str:
    from headrace_embedded import root_reset  # noqa: PLC0415

    with _connected(replicas) as connections:

        def read() -> Snapshot:
            _, contents = next(_from_all(connections, lambda replica: _snapshot(replica, CONSISTENCY_LINEARIZABLE)))
            return StateSnapshot.FromString(contents).catalog

        def propose(command: Command) -> Reply:
            return next(_from_all(connections, lambda replica: _propose(replica, command)))[1]

        return root_reset.reset_through(propose, read, password)


@contextmanager
def _connected(replicas: Replicas) -> Iterator[tuple[MetadataReplica, ...]]:
    file = replicas.secret_file
    try:
        secret = file.read_text(encoding="utf-8").rstrip("\r\n") if file is not None else None
    except OSError as error:
        raise MetadataFileError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MetadataFileError(f"{file} is not text in UTF-8, which the secret is") from error
    target = MetadataTarget(
        addresses=replicas.addresses, cluster=replicas.cluster, secret=secret, authority=replicas.authority
    )
    with connected(target) as connections:
        yield connections


def _archive(file: Path, contents: bytes) -> None:
    """Write a new file that survives a power cut, or none."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(contents)
            opened.flush()
            os.fsync(opened.fileno())
        sync_directory(file.parent)
    except BaseException:
        file.unlink(missing_ok=True)
        raise


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
                output.say(problems[-1])
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


def _status_record(address: str, answer: ReplicaStatus | None) -> ReplicaStatusDocument:
    """Return the status of a replica; None: it does not answer."""
    if answer is None:
        return {
            "address": address,
            "cluster": None,
            "cluster_id": None,
            "replica": None,
            "state": "no answer",
            "view": None,
            "primary": None,
            "op": None,
            "commit": None,
            "applied": None,
            "checkpoint": None,
            "version": None,
            "release": None,
            "storage": None,
            "started_at_micros": None,
            "started_at": None,
        }
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
        "started_at": output.timestamp(answer.started_at_micros),
    }
