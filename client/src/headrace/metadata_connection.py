"""Connecting to the replicas of the metadata service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from headrace_proto.cluster_token import HEADER, authorization
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub

_OPTIONS = (("grpc.max_receive_message_length", 256 * 1024 * 1024),)


class MetadataError(Exception):
    """A command for the metadata service cannot be carried out. The message says why."""


class MetadataUnavailable(MetadataError):
    """No replica gave an answer. The message says what each of them said."""


class MetadataFileError(MetadataError):
    """A file that the command needs cannot be read or written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTarget:
    """Which cluster is meant, and how to be let in."""

    addresses: tuple[str, ...]
    """``host:port`` of the gRPC service of one or more of its replicas."""
    cluster: str
    """Its name."""
    secret: str | None
    """What it is shared with; None when it has none."""
    authority: Path | None
    """PEM file with what its certificates are signed by; None when connections are not encrypted."""
    timeout_seconds: float = 10.0
    """For each answer."""


@dataclass(frozen=True, slots=True)
class MetadataReplica:
    """One replica that can be called."""

    address: str
    stub: MetadataStub
    metadata: tuple[tuple[str, str], ...]
    """What every call carries."""
    timeout_seconds: float


@contextmanager
def connected(target: MetadataTarget) -> Iterator[tuple[MetadataReplica, ...]]:
    """Connections to all replicas of the target, in its order, for the length of a ``with`` block.

    Nothing is sent before the first call: a replica that is down shows then.

    Raises:
        MetadataFileError: The file with the authority cannot be read.
    """
    metadata = ((HEADER, authorization(target.secret, target.cluster)),) if target.secret is not None else ()
    channels = [_channel(address, target.authority) for address in target.addresses]
    try:
        yield tuple(
            MetadataReplica(address, MetadataStub(channel), metadata, target.timeout_seconds)
            for address, channel in zip(target.addresses, channels, strict=True)
        )
    finally:
        for channel in channels:
            channel.close()


def explain(address: str, error: grpc.RpcError) -> str:
    """What a replica, or the way to it, has to say for itself."""
    if isinstance(error, grpc.Call):
        return f"{address}: {error.code().name.lower()}: {error.details()}"
    return f"{address}: {error}"


def unavailable(problems: Sequence[str]) -> MetadataUnavailable:
    """The error for when no replica gave an answer."""
    return MetadataUnavailable("no replica answered\n" + "\n".join(problems))


def _channel(address: str, authority: Path | None) -> grpc.Channel:
    if authority is None:
        return grpc.insecure_channel(address, options=_OPTIONS)
    try:
        certificates = authority.read_bytes()
    except OSError as error:
        raise MetadataFileError(f"{authority} cannot be read: {error.strerror}") from error
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(certificates), options=_OPTIONS)
