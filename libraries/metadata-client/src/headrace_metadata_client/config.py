"""Settings of all clients of the metadata service."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Self

from pydantic import model_validator

from headrace_chassis.cluster_secrets import check_secrets, secrets_of
from headrace_metadata_client.access import MetadataTarget
from headrace_settings import Secret, Section
from headrace_settings.units.names import HostPort, Name

_LOOPBACK: Final = re.compile(r"(127\.[0-9.]+|\[::1\]|localhost):[0-9]+")


class ClusterSettings(Section):
    """``[cluster]``: the cluster of this process, and the addresses of its metadata service."""

    name: Name = "headrace"
    """Name of the cluster, the same in all its services."""
    secret: Secret | None = None
    """Shared secret of the cluster's services, at least 32 bytes (create one with `openssl rand -hex 32`). Required as
    soon as any service of the cluster is reachable beyond loopback.
    """
    accepted_secret: Secret | None = None
    """Second secret that is also accepted while the secret is rotated: the next one first, the former one afterwards.
    See docs/encryption.md.
    """
    metadata: tuple[HostPort, ...] = ("127.0.0.1:8111",)
    """Addresses of the gRPC service of the metadata replicas, each `host:port`, in the order of the members."""
    authority: str | None = None
    """PEM file with the authorities that sign the certificates of the cluster's services. Required for replicas beyond
    loopback, unless the network is trusted.
    """
    trusted_network: bool = False
    """The network between the services is private: permit unencrypted connections."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.metadata:
            raise ValueError("metadata is empty: list at least one replica")
        if len(set(self.metadata)) < len(self.metadata):
            raise ValueError("a replica is listed twice in metadata")
        check_secrets(self.secret, self.accepted_secret)
        distant = [address for address in self.metadata if not _LOOPBACK.fullmatch(address)]
        if distant and self.secret is None:
            raise ValueError(f"the replica {distant[0]} is not on loopback: secret is needed")
        if distant and self.authority is None and not self.trusted_network:
            raise ValueError(
                f"the replica {distant[0]} is not on loopback: set authority, because unencrypted traffic exposes "
                "the secret; or trusted_network = true if the network is private"
            )
        return self

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets that are accepted from other services, the own one first."""
        return secrets_of(self.secret, self.accepted_secret)

    @property
    def target(self) -> MetadataTarget:
        """Metadata service of this cluster."""
        return MetadataTarget(
            addresses=self.metadata,
            cluster=self.name,
            secret=self.secret.reveal() if self.secret is not None else None,
            authority=Path(self.authority) if self.authority is not None else None,
        )
