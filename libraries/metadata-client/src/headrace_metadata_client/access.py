"""Address and credentials of the metadata service of a cluster."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from headrace_metadata_client.errors import AuthorityError
from headrace_proto.cluster_token import HEADER, authorization

CHANNEL_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # A complete catalog is one message.
    ("grpc.max_receive_message_length", 256 * 1024 * 1024),
    # A restarted replica is found within a second or two.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # Connections with the former authority must not be shared with those that use the new one.
    ("grpc.use_local_subchannel_pool", 1),
)
"""Options of every connection to a replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTarget:
    """Metadata service of a cluster, and the credentials for it."""

    addresses: tuple[str, ...]
    """Addresses, ``host:port``, of the gRPC service of its replicas, in the order of the members."""
    cluster: str
    """Name of the cluster."""
    secret: str | None
    """Shared secret of the cluster's services; None if there is none."""
    authority: Path | None
    """PEM file with the authorities that sign the replicas' certificates; None if connections are not encrypted."""

    def call_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of every call."""
        return ((HEADER, authorization(self.secret, self.cluster)),) if self.secret is not None else ()

    def authority_pem(self) -> bytes | None:
        """Read the authority; None if connections are not encrypted.

        Raises:
            AuthorityError: The file cannot be read, or holds no certificate.
        """
        if self.authority is None:
            return None
        try:
            pem = self.authority.read_bytes()
        except OSError as error:
            raise AuthorityError(f"{self.authority} cannot be read: {error.strerror}") from error
        try:
            # gRPC accepts any content, and with an invalid one trusts no certificate.
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise AuthorityError(f"{self.authority} contains no PEM certificate: {error}") from error
        return pem

    @staticmethod
    def channel_credentials(authority_pem: bytes | None) -> grpc.ChannelCredentials | None:
        """Return the credentials of channels; None: no encryption."""
        return grpc.ssl_channel_credentials(authority_pem) if authority_pem is not None else None
