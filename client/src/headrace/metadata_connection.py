"""Connections to the replicas of the metadata service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import grpc

from headrace_metadata_client import CHANNEL_OPTIONS, AuthorityError, MetadataTarget
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub

TIMEOUT_SECONDS = 10.0
"""Timeout of each answer."""


class MetadataError(Exception):
    """A command for the metadata service failed. The message contains the reason."""


class MetadataUnavailable(MetadataError):
    """No replica answered. The message contains the error of each."""


class MetadataFileError(MetadataError):
    """A file that the command needs cannot be read or written."""


@dataclass(frozen=True, slots=True)
class MetadataReplica:
    """One replica that can be called."""

    address: str
    stub: MetadataStub
    metadata: tuple[tuple[str, str], ...]
    """Metadata of every call."""
    timeout_seconds: float = TIMEOUT_SECONDS


@contextmanager
def connected(target: MetadataTarget) -> Iterator[tuple[MetadataReplica, ...]]:
    """Connect to all replicas of the target, in its order, for the duration of a ``with`` block.

    Nothing is sent before the first call, which fails if a replica is down.

    Raises:
        MetadataFileError: The file with the authority cannot be read.
    """
    try:
        credentials = target.channel_credentials(target.authority_pem())
    except AuthorityError as error:
        raise MetadataFileError(str(error)) from error
    channels = [_channel(address, credentials) for address in target.addresses]
    try:
        yield tuple(
            MetadataReplica(address, MetadataStub(channel), target.call_metadata())
            for address, channel in zip(target.addresses, channels, strict=True)
        )
    finally:
        for channel in channels:
            channel.close()


def explain(address: str, error: grpc.RpcError) -> str:
    """Return the message of an error of a replica, or of its connection."""
    if isinstance(error, grpc.Call):
        return f"{address}: {error.code().name.lower()}: {error.details()}"
    return f"{address}: {error}"


def unavailable(problems: Sequence[str]) -> MetadataUnavailable:
    """Return the error for the case that no replica answered."""
    return MetadataUnavailable("no replica answered\n" + "\n".join(problems))


def _channel(address: str, credentials: grpc.ChannelCredentials | None) -> grpc.Channel:
    if credentials is None:
        return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
    return grpc.secure_channel(address, credentials, options=CHANNEL_OPTIONS)
