"""Settings of the metadata service."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import model_validator

from headrace_chassis.cluster_secrets import check_secrets, secrets_of
from headrace_chassis.log_output import LoggingSettings
from headrace_chassis.tls import TlsSettings, former_names
from headrace_node.tracing import TraceExportConfig
from headrace_settings import Address, Between, Duration, Loaded, Secret, Section, Size, load
from headrace_settings.units.names import HostPort, Name

PREFIX: Final = "HEADRACE_METADATA"
"""Prefix of environment variables: ``grpc.address`` is ``HEADRACE_METADATA_GRPC_ADDRESS``."""

COMMAND_LINE_VARIABLES: Final = tuple(
    f"{PREFIX}_{name}" for name in ("AUTHORITY", "CLUSTER", "REPLICAS", "SECRET_FILE")
)
"""Variables of `headrace metadata`, which are no settings: both may run in the same environment."""

_MEMBERS_COUNTS: Final = (1, 3, 5)


class StateSettings(Section):
    """``[system.state]``: durability of the catalog."""

    enforce_fsync: bool = True
    """Acknowledge a command only when it is on the device. If false, a power failure may lose the newest commands; a
    crash of the process never does. A cluster always syncs.
    """

    snapshot_commands: Annotated[int, Between(1, 1_000_000)] = 1024
    """Take a snapshot and truncate the journal after this many entries; commands that arrive together share one entry.
    """

    snapshot_journal_size: Annotated[Size, Between(Size(64 * 1024), None)] = Size(16 * 1024 * 1024)
    """Take a snapshot earlier if the journal has grown by this size."""


class StorageSettings(Section):
    """``[system]``: storage of this replica."""

    path: str = "local_metadata"
    """Data directory of this replica, used by one process at a time."""
    state: StateSettings = StateSettings()


class ClusterSettings(Section):
    """``[cluster]``: replicas of the cluster."""

    name: Name = "headrace"
    """Name of the cluster. Replicas and callers of another cluster are refused. Stored in the data directory."""
    members: tuple[HostPort, ...] = ("127.0.0.1:8110",)
    """Addresses of the replicas for each other, one, three or five of `host:port`: the same list, in the same order,
    for every replica.
    """
    replica: Annotated[int, Between(0, 4)] = 0
    """Index of this replica in the list of members, from 0. Stored in the data directory."""
    listen: Address | None = None
    """Address on which this replica listens to the others, if different from its address in the list."""
    given_up: tuple[Annotated[int, Between(0, 4)], ...] = ()
    """Indexes of members that are permanently lost, from 0. A replica that restarts with an empty data directory waits
    for all other replicas, because any of them may be the only one with the data it lost. It does not wait for the
    members listed here, and data that only they had is lost. A listed member is refused: remove it from this list when
    it rejoins with an empty data directory.
    """
    secret: Secret | None = None
    """Shared secret of replicas and callers, at least 32 bytes (`openssl rand -hex 32` makes one). Required with more
    than one replica, or if any address is beyond loopback.
    """
    accepted_secret: Secret | None = None
    """Second secret accepted while the secret is changed: first the new one, later the old one. See docs/encryption.md.
    """
    timeouts: Literal["default", "seed", "wan"] = "default"
    """Timeouts after which a silent primary is replaced: `default` (below a second), `wan` (replicas far from each
    other), `seed` (heartbeats of 5 s).
    """

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.members) not in _MEMBERS_COUNTS:
            raise ValueError(f"there are {len(self.members)} members: one, three or five are allowed")
        if len(set(self.members)) < len(self.members):
            raise ValueError("a member is listed twice")
        if self.replica >= len(self.members):
            raise ValueError(
                f"replica = {self.replica} is not an index of members, which are 0 to {len(self.members) - 1}"
            )
        if self.replica in self.given_up or any(member >= len(self.members) for member in self.given_up):
            raise ValueError("given_up must list indexes of other members")
        if len(set(self.given_up)) > len(self.members) // 2:
            raise ValueError("given_up must leave a majority of the members")
        check_secrets(self.secret, self.accepted_secret)
        if self.secret is None and len(self.members) > 1:
            raise ValueError("several replicas need a secret")
        return self

    @property
    def secrets(self) -> tuple[str, ...]:
        """Accepted secrets, this replica's own first."""
        return secrets_of(self.secret, self.accepted_secret)

    @property
    def replicas_address(self) -> str | None:
        """Setting by which this replica listens to the others beyond loopback, if any."""
        if len(self.members) == 1 and self.listen is None:
            return None
        if self.listen is not None:
            return None if self.listen.ip.is_loopback else f"cluster.listen = {self.listen}"
        own = self.members[self.replica]
        return None if _is_loopback(own.rpartition(":")[0]) else f"cluster.members: {own}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class GrpcSettings(Section):
    """``[grpc]``: the gRPC API of the metadata service."""

    address: Address = Address.parse("127.0.0.1:8111")
    """Address for commands, reads and watches; port 0 picks a free port."""


class MetricsSettings(Section):
    """``[metrics]``: metrics over HTTP."""

    address: Address | None = None
    """Address for metrics in the Prometheus text format over HTTP, under `/metrics`; not served by default. If there is
    a secret, callers have to present the token derived from it. `/health` returns without a token whether the replica
    is working.
    """


class ReplicaTlsSettings(TlsSettings):
    """``[tls]``: TLS of the connections with callers and between replicas."""

    authority: str | None = None
    """PEM file with the authority that signs the certificates of the other replicas."""
    certificate_check_interval: Annotated[Duration, Between(Duration.parse("10 ms"), Duration.parse("1 day"))] = (
        Duration.parse("10 s")
    )
    """Interval at which the files are checked for changes: a new certificate or authority applies to new connections,
    those between replicas included. Unusable files are reported, and the previous ones stay in use. The signal USR1
    triggers the check at once.
    """

    @model_validator(mode="after")
    def _with_authority(self) -> Self:
        if (self.cert_file is None) != (self.authority is None):
            raise ValueError("cert_file, key_file and authority are given together or not at all")
        return self

    @property
    def peer_files(self) -> tuple[str, str, str] | None:
        """Certificate, key and authority, for connections between replicas; None without TLS."""
        if self.cert_file is None or self.key_file is None or self.authority is None:
            return None
        return self.cert_file, self.key_file, self.authority


class TracingSettings(TraceExportConfig):
    """`[tracing]`: the spans of calls that are part of a recorded trace."""

    service_name: str = "headrace-metadata"
    """Service name of this process in traces."""


class MetadataConfig(Section):
    """All settings of the service process."""

    cluster: ClusterSettings = ClusterSettings()
    grpc: GrpcSettings = GrpcSettings()
    tls: ReplicaTlsSettings = ReplicaTlsSettings()
    metrics: MetricsSettings = MetricsSettings()
    system: StorageSettings = StorageSettings()
    logging: LoggingSettings = LoggingSettings()
    tracing: TracingSettings = TracingSettings()

    @model_validator(mode="after")
    def _nothing_open_beyond_loopback(self) -> Self:
        metrics = self.metrics.address
        if metrics is not None and not metrics.ip.is_loopback and self.cluster.secret is None:
            raise ValueError(f"metrics.address = {metrics} is not loopback: cluster.secret is needed")
        if self.cluster.replicas_address is not None and self.tls.files is None:
            raise ValueError(
                f"{self.cluster.replicas_address} is not loopback: tls.cert_file, tls.key_file and tls.authority "
                "are needed, because messages between replicas could be read and forged"
            )
        if self.grpc.address.ip.is_loopback:
            return self
        if self.cluster.secret is None:
            raise ValueError(f"grpc.address = {self.grpc.address} is not loopback: cluster.secret is needed")
        if self.tls.files is None:
            raise ValueError(
                f"grpc.address = {self.grpc.address} is not loopback: tls.cert_file, tls.key_file and tls.authority "
                "are needed, because unencrypted traffic exposes the secret that authorizes commands"
            )
        return self


def load_config(
    file: Path | None, environment: Mapping[str, str], options: Mapping[str, tuple[str, str]] | None = None
) -> Loaded[MetadataConfig]:
    """Read the configuration of the service process.

    Raises:
        SettingsError: A setting is unknown or invalid.
    """
    renamed = {"system.logging.level": "logging.level"}
    return load(
        MetadataConfig,
        file=file,
        environment=environment,
        prefix=PREFIX,
        options=options,
        reserved=COMMAND_LINE_VARIABLES,
        renamed=renamed,
        former=former_names("tls"),
    )
