"""Settings of a partition node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, model_validator

from headrace_chassis.log_output import LoggingSettings
from headrace_chassis.tls import TlsSettings, former_names
from headrace_metadata_client import ClusterSettings
from headrace_node import ShardsConfig
from headrace_node.config import StorageConfig
from headrace_node.edge_config import EdgeSettings
from headrace_node.tracing import TraceExportConfig
from headrace_settings import Address, Between, Duration, Loaded, Section, SharedBy, Size, load
from headrace_settings.units.names import Name

PREFIX: Final = "HEADRACE_NODE"
"""Prefix of environment variables: ``grpc.address`` is ``HEADRACE_NODE_GRPC_ADDRESS``."""

_ADVERTISED: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]\s]+):[1-9][0-9]{0,4}")


def _advertised(text: str) -> str:
    if not _ADVERTISED.fullmatch(text):
        raise ValueError(f"{text!r} is not host:port")
    return text


class IdentitySettings(Section):
    """``[node]``: identity of this node."""

    name: Name = "node-1"
    """Name of this node, unique in the cluster and the same in every run: the cluster identifies the node's partitions
    by it. Stored in the data directory.
    """
    lease: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 hour"))] = Duration.parse("10 s")
    """Time without a heartbeat after which the cluster places nothing new on this node. Its replicas stay."""
    expect_loss: bool = False
    """Start although the data directory is not the one that the cluster expects on this node: data missing in it is
    lost.
    """
    stop_timeout: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 hour"))] = Duration.parse("30 s")
    """Time that requests in flight get to finish when the process is asked to stop. Partitions have 10 s more to write
    and close.
    """


class BinaryTlsSettings(TlsSettings):
    """``[binary.tls]``: TLS 1.2 and 1.3 on the binary port."""

    enabled: bool = False
    """Accept only TLS connections on the port. Gateways then need `links.tls`. Without a certificate of its own, the
    port has that of `tls`.
    """
    client_certificates: Literal["none", "required"] = "none"
    """Require a certificate of gateways, and of clients with a ticket, signed by an authority in `client_ca_file`. The
    name in the certificate is not used: the ticket determines the permissions.
    """
    client_ca_file: str | None = None
    """PEM file with these authorities; `cluster.authority` if not set."""
    client_crl_file: str | None = None
    """PEM file with the certificate revocation lists of all these authorities. A revoked certificate is refused, and so
    is every certificate once a list has expired. A changed file is detected like a changed certificate; connections
    whose certificate is revoked are closed. An unreadable or expired list prevents the start; if it appears later, it
    is reported and not used.
    """

    @model_validator(mode="after")
    def _revocations_need_certificates(self) -> Self:
        if self.client_certificates == "none" and self.client_crl_file is not None:
            raise ValueError("client_crl_file needs client_certificates: otherwise clients present no certificate")
        return self


class BinarySettings(Section):
    """``[binary]``: the port for gateways, and for clients with a ticket."""

    address: Address = Address.parse("127.0.0.1:8100")
    """Address to listen on; port 0 picks a free port."""
    advertised: Annotated[str, AfterValidator(_advertised)] | None = None
    """Address for other processes, `host:port`, if different from the listening address."""
    max_connections: Annotated[int, Between(1, 1_000_000), SharedBy.ALL] = 4096
    """Maximum number of connections; further connections are refused."""
    max_request_size: Annotated[Size, Between(Size(1024), Size.parse("512 MiB")), SharedBy.EACH_REQUEST] = Size.parse(
        "256 MiB"
    )
    """Maximum payload of one batch from a client with a ticket; a larger one is refused."""
    max_response_size: Annotated[Size, Between(Size(1024), Size.parse("512 MiB")), SharedBy.EACH_REQUEST] = Size.parse(
        "16 MiB"
    )
    """Maximum size of the messages that one poll returns; a single message may be larger."""
    max_waits: Annotated[int, Between(1, 10_000_000), SharedBy.ALL] = 131_072
    """Maximum number of partitions that gateways and clients together wait for or watch."""
    tls: BinaryTlsSettings = BinaryTlsSettings()


class GrpcSettings(Section):
    """``[grpc]``: reading and writing of raw batches."""

    address: Address = Address.parse("127.0.0.1:8101")
    """Address to listen on; port 0 picks a free port."""
    advertised: Annotated[str, AfterValidator(_advertised)] | None = None
    """Address for other processes, `host:port`, if different from the listening address."""
    max_connections: Annotated[int, Between(1, 100_000), SharedBy.USERS] = 1024
    """Maximum number of connections. While less than an eighth of the places is free, connections without a valid
    ticket leave, the oldest first, of addresses that have more than an eighth of all; those of one user beyond half of
    the places are counted with them. A further one is refused.
    """
    max_calls: Annotated[int, Between(1, 100_000), SharedBy.USERS] = 1024
    """Maximum number of calls in progress; further calls are refused. One user, for whom tickets were made, may have
    half of what other users leave.
    """
    max_request_size: Annotated[Size, Between(Size(1024), Size.parse("512 MiB")), SharedBy.EACH_REQUEST] = Size.parse(
        "64 MiB"
    )
    """Maximum size of one batch; a larger one is refused."""
    max_memory: Annotated[Size, Between(Size.parse("1 MiB"), Size.parse("1 TiB")), SharedBy.USERS] = Size.parse(
        "256 MiB"
    )
    """Memory budget for batches of all calls, in both directions; calls beyond it wait. One user may have half of what
    other users leave.
    """


class HttpSettings(Section):
    """``[http]``: health and metrics."""

    address: Address | None = Address.parse("127.0.0.1:8102")
    """Address for `/health`, `/live` and `/metrics`; port 0 picks a free port."""


class GrpcTlsSettings(TlsSettings):
    """``[tls]``: TLS for gRPC, and for the binary port if `binary.tls` names no certificate."""


class TracingSettings(TraceExportConfig):
    """`tracing`: spans of sampled requests, from their arrival to the disk."""

    service_name: str = "headrace-node"
    """Service name of this process in traces."""


class NodeStorageConfig(StorageConfig):
    """`system`: storage of this node."""

    path: str = "local_node"
    """Data directory, used by one process at a time, for one node of one cluster."""


class PartitionNodeConfig(ShardsConfig):
    """All settings of the process."""

    cluster: ClusterSettings = ClusterSettings()
    node: IdentitySettings = IdentitySettings()
    binary: BinarySettings = BinarySettings()
    grpc: GrpcSettings = GrpcSettings()
    http: HttpSettings = HttpSettings()
    tls: GrpcTlsSettings = GrpcTlsSettings()
    edge: EdgeSettings = EdgeSettings()
    system: NodeStorageConfig = NodeStorageConfig()
    logging: LoggingSettings = LoggingSettings()
    tracing: TracingSettings = TracingSettings()

    @property
    def binary_files(self) -> tuple[Path, Path] | None:
        """Certificate and key of the binary port, if any."""
        return self.binary.tls.files or self.tls.files

    @property
    def binary_client_authority(self) -> str | None:
        """File with the authorities of client certificates on the binary port."""
        return self.binary.tls.client_ca_file or self.cluster.authority

    @model_validator(mode="after")
    def _encryption_has_what_it_needs(self) -> Self:
        tls = self.binary.tls
        if tls.enabled and self.binary_files is None:
            raise ValueError(
                "binary.tls.enabled needs binary.tls.cert_file and binary.tls.key_file, or tls.cert_file and "
                "tls.key_file"
            )
        if tls.client_certificates == "required":
            if not tls.enabled:
                raise ValueError("binary.tls.client_certificates = required needs binary.tls.enabled = true")
            if self.binary_client_authority is None:
                raise ValueError(
                    "binary.tls.client_certificates = required needs binary.tls.client_ca_file, or cluster.authority"
                )
        return self

    @model_validator(mode="after")
    def _nothing_open_beyond_loopback(self) -> Self:
        open_addresses = {
            name: address
            for name, address in (
                ("binary.address", self.binary.address),
                ("grpc.address", self.grpc.address),
                ("http.address", self.http.address),
            )
            if address is not None and not address.ip.is_loopback
        }
        for name, address in open_addresses.items():
            if self.cluster.secret is None:
                raise ValueError(f"{name} = {address} is not loopback: cluster.secret is needed")
        if self.cluster.trusted_network:
            return self
        if "binary.address" in open_addresses and not self.binary.tls.enabled:
            raise ValueError(
                f"binary.address = {self.binary.address} is not loopback, and its traffic is not encrypted: "
                "binary.tls.enabled = true encrypts it, and cluster.trusted_network = true declares the network "
                "between the services private"
            )
        if "grpc.address" in open_addresses and self.tls.files is None:
            raise ValueError(
                f"grpc.address = {self.grpc.address} is not loopback: tls.cert_file and tls.key_file are needed, or "
                "cluster.trusted_network = true if the network between the services is private"
            )
        return self

    @model_validator(mode="after")
    def _others_can_find_it(self) -> Self:
        for name, section in (("binary", self.binary), ("grpc", self.grpc)):
            if section.address.ip.is_unspecified and section.advertised is None:
                raise ValueError(
                    f"{name}.address = {section.address} covers all addresses of this machine: set {name}.advertised "
                    "to the address that others connect to"
                )
        return self


def load_config(
    file: Path | None, environment: Mapping[str, str], options: Mapping[str, tuple[str, str]] | None = None
) -> Loaded[PartitionNodeConfig]:
    """Read the configuration of the process.

    Raises:
        SettingsError: A setting is unknown or invalid.
    """
    renamed = {"system.logging.level": "logging.level"}
    return load(
        PartitionNodeConfig,
        file=file,
        environment=environment,
        prefix=PREFIX,
        options=options,
        renamed=renamed,
        former=former_names("tls"),
    )
