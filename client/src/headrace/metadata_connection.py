"""Connecting to the replicas of the metadata service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import grpc

from headrace_metadata_client import CHANNEL_OPTIONS, AuthorityError, MetadataTarget
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub

TIMEOUT_SECONDS = 10.0
"""For each answer."""


class MetadataError(Exception):
    """A command for the metadata service cannot be carried out. The message says why."""


class MetadataUnavailable(MetadataError):
    """No replica gave an answer. The message says what each of them said."""


class MetadataFileError(MetadataError):
    """A file that the command needs cannot be read or written."""


@dataclass(frozen=True, slots=True)
class MetadataReplica:
    """One replica that can be called."""

    address: str
    stub: MetadataStub
    metadata: tuple[tuple[str, str], ...]
    """What every call carries."""
    timeout_seconds: float = TIMEOUT_SECONDS


@contextmanager
def connected(target: MetadataTarget) -> Iterator[tuple[MetadataReplica, ...]]:
    """Connections to all replicas of the target, in its order, for the length of a ``with`` block.

    Nothing is sent before the first call: a replica that is down shows then.

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
    """What a replica, or the way to it, has to say for itself."""
    if isinstance(error, grpc.Call):
        return f"{address}: {error.code().name.lower()}: {error.details()}"
    return f"{address}: {error}"


def unavailable(problems: Sequence[str]) -> MetadataUnavailable:
    """The error for when no replica gave an answer."""
    return MetadataUnavailable("no replica answered\n" + "\n".join(problems))


def _channel(address: str, credentials: grpc.ChannelCredentials | None) -> grpc.Channel:
    if credentials is None:
        return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
    return grpc.secure_channel(address, credentials, options=CHANNEL_OPTIONS)
