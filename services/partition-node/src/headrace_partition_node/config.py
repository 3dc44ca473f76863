"""Settings of a partition node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, model_validator

from headrace_metadata_client import ClusterSettings
from headrace_settings import Address, Between, Duration, Loaded, Section, Size, load
from headrace_settings.log_output import LoggingSettings
from headrace_settings.names import Name
from headrace_shards import ShardsConfig
from headrace_shards.config import StorageConfig
from headrace_shards.edge_config import EdgeSettings
from headrace_shards.tracing import TraceExportConfig

PREFIX: Final = "HEADRACE_NODE"
"""Of the environment variables of the process: ``grpc.address`` is ``HEADRACE_NODE_GRPC_ADDRESS``."""

_ADVERTISED: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]\s]+):[1-9][0-9]{0,4}")


def _advertised(text: str) -> str:
    if not _ADVERTISED.fullmatch(text):
        raise ValueError(f"{text!r} is not host:port")
    return text


class IdentitySettings(Section):
    """``[node]``: which node this is."""

    name: Name = "node-1"
    """Its name in the cluster, the same in every run: by it the cluster knows what this node holds. It is kept in the
    folder."""
    lease: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 hour"))] = Duration.parse("10 s")
    """The cluster places nothing new on a node that it has not heard from for so long. What the node holds stays."""
    expect_loss: bool = False
    """Start although the folder is not the one that the cluster expects on this node: what is not in it is lost."""
    stop_timeout: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 hour"))] = Duration.parse("30 s")
    """How long requests in flight may take when the process is asked to stop."""


class BinaryTlsSettings(Section):
    """``[binary.tls]``: TLS 1.2 and 1.3 on the binary port."""

    enabled: bool = False
    """Every connection on the port is TLS. Gateways need `links.tls` for it."""
    cert_file: str | None = None
    """PEM file with the certificate of this node, followed by those between it and its authority; `tls.certificate` if
    there is none. A new one is noticed and used for new connections; one that cannot be used, or is not valid now, is
    reported, and the old one stays."""
    key_file: str | None = None
    """PEM file with its private key (PKCS#8, PKCS#1 or SEC1); `tls.key` if there is none."""
    client_certificates: Literal["none", "required"] = "none"
    """Whether gateways, and clients with a ticket, have to show a certificate that an authority in `client_ca_file`
    vouches for. Whose it is makes no difference: the ticket says what they may do."""
    client_ca_file: str | None = None
    """PEM file with these authorities; `cluster.authority` if there is none."""
    client_crl_file: str | None = None
    """PEM file with the certificate revocation lists of all these authorities: a certificate that is in one is refused,
    and so is every certificate once a list has ended. A new file is noticed like a new certificate; connections whose
    certificate is in it end. One that cannot be read, or has ended, keeps the node from starting, and is reported and
    not used afterwards."""

    @model_validator(mode="after")
    def _all_or_nothing(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file are given together or not at all")
        if self.client_certificates == "none" and self.client_crl_file is not None:
            raise ValueError("client_crl_file needs client_certificates: clients are not asked for one")
        return self


class BinarySettings(Section):
    """``[binary]``: the port that gateways, and clients with a ticket, use."""

    address: Address = Address.parse("127.0.0.1:8100")
    """Where it listens; port 0 picks a free one."""
    advertised: Annotated[str, AfterValidator(_advertised)] | None = None
    """Where others find it, `host:port`, if not at the address it listens on."""
    max_connections: Annotated[int, Between(1, 1_000_000)] = 4096
    """One more is refused."""
    max_request_size: Annotated[Size, Between(Size(1024), Size.parse("512 MiB"))] = Size.parse("256 MiB")
    """Payload of one batch that a client with a ticket sends; a larger one is refused."""
    max_response_size: Annotated[Size, Between(Size(1024), Size.parse("512 MiB"))] = Size.parse("16 MiB")
    """Messages of one poll; a single message may be larger."""
    max_waits: Annotated[int, Between(1, 10_000_000)] = 131_072
    """Partitions that gateways and clients wait for and watch, all together."""
    tls: BinaryTlsSettings = BinaryTlsSettings()


class GrpcSettings(Section):
    """``[grpc]``: reading and writing whole batches."""

    address: Address = Address.parse("127.0.0.1:8101")
    """Where it is served; port 0 picks a free one."""
    advertised: Annotated[str, AfterValidator(_advertised)] | None = None
    """Where others find it, `host:port`, if not at the address it listens on."""
    max_connections: Annotated[int, Between(1, 100_000)] = 1024
    """One more waits, and is given up soon."""
    max_calls: Annotated[int, Between(1, 100_000)] = 1024
    """At a time; one more is refused."""
    max_request_size: Annotated[Size, Between(Size(1024), Size.parse("512 MiB"))] = Size.parse("64 MiB")
    """One batch; a larger one is refused."""
    max_memory: Annotated[Size, Between(Size.parse("1 MiB"), Size.parse("1 TiB"))] = Size.parse("256 MiB")
    """What is held of batches on their way in and out, all calls together; beyond it they wait."""


class HttpSettings(Section):
    """``[http]``: health and metrics."""

    address: Address | None = Address.parse("127.0.0.1:8102")
    """Where `/health`, `/live` and `/metrics` are served; port 0 picks a free one."""


class TlsSettings(Section):
    """``[tls]``: for gRPC, and for the binary port where `binary.tls` names no certificate."""

    certificate: str | None = None
    """PEM file with the certificate of this node, followed by those between it and the authority."""
    key: str | None = None
    """PEM file with its private key."""

    @model_validator(mode="after")
    def _all_or_nothing(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key are given together or not at all")
        return self

    @property
    def files(self) -> tuple[Path, Path] | None:
        """Certificate and key; none if nothing is to be encrypted."""
        if self.certificate is None or self.key is None:
            return None
        return Path(self.certificate), Path(self.key)


class TracingSettings(TraceExportConfig):
    """`tracing`: the spans of requests that are part of a recorded trace, from their arrival to the disk."""

    service_name: str = "headrace-node"
    """What this process is called in traces."""


class NodeStorageConfig(StorageConfig):
    """`system`."""

    path: str = "local_node"
    """The data folder. One process at a time uses it, of one node of one cluster."""


class PartitionNodeConfig(ShardsConfig):
    """Everything that the process can be told."""

    cluster: ClusterSettings = ClusterSettings()
    node: IdentitySettings = IdentitySettings()
    binary: BinarySettings = BinarySettings()
    grpc: GrpcSettings = GrpcSettings()
    http: HttpSettings = HttpSettings()
    tls: TlsSettings = TlsSettings()
    edge: EdgeSettings = EdgeSettings()
    system: NodeStorageConfig = NodeStorageConfig()
    logging: LoggingSettings = LoggingSettings()
    tracing: TracingSettings = TracingSettings()

    @property
    def binary_files(self) -> tuple[Path, Path] | None:
        """Certificate and key that the binary port shows, if there are any."""
        own = self.binary.tls
        if own.cert_file is None or own.key_file is None:
            return self.tls.files
        return Path(own.cert_file), Path(own.key_file)

    @property
    def binary_client_authority(self) -> str | None:
        """What vouches for those who connect to the binary port."""
        return self.binary.tls.client_ca_file or self.cluster.authority

    @model_validator(mode="after")
    def _encryption_has_what_it_needs(self) -> Self:
        tls = self.binary.tls
        if tls.enabled and self.binary_files is None:
            raise ValueError(
                "binary.tls.enabled needs binary.tls.cert_file and binary.tls.key_file, or tls.certificate and tls.key"
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
                f"binary.address = {self.binary.address} is not loopback, and what goes over it is not encrypted: "
                "binary.tls.enabled = true encrypts it, and cluster.trusted_network = true says that nobody else reads "
                "the network between the services"
            )
        if "grpc.address" in open_addresses and self.tls.files is None:
            raise ValueError(
                f"grpc.address = {self.grpc.address} is not loopback: tls.certificate and tls.key are needed, or "
                "cluster.trusted_network = true if nobody else reads the network between the services"
            )
        return self

    @model_validator(mode="after")
    def _others_can_find_it(self) -> Self:
        for name, section in (("binary", self.binary), ("grpc", self.grpc)):
            if section.address.ip.is_unspecified and section.advertised is None:
                raise ValueError(
                    f"{name}.address = {section.address} is every address of this machine: {name}.advertised has to "
                    "say where others find it"
                )
        return self


def load_config(
    file: Path | None, environment: Mapping[str, str], options: Mapping[str, tuple[str, str]] | None = None
) -> Loaded[PartitionNodeConfig]:
    """Read the configuration of the process.

    Raises:
        SettingsError: Something is unknown or wrong.
    """
    renamed = {"system.logging.level": "logging.level"}
    return load(
        PartitionNodeConfig, file=file, environment=environment, prefix=PREFIX, options=options, renamed=renamed
    )
