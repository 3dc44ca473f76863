"""Settings of the metadata service."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import model_validator

from headrace_settings import Address, Between, Duration, Loaded, Secret, Section, Size, load
from headrace_settings.cluster_secrets import check_secrets, secrets_of
from headrace_settings.log_output import LoggingSettings
from headrace_settings.names import HostPort, Name
from headrace_shards.tracing import TraceExportConfig

PREFIX: Final = "HEADRACE_METADATA"
"""Of the environment variables of the service process: ``grpc.address`` is ``HEADRACE_METADATA_GRPC_ADDRESS``."""

_MEMBERS_COUNTS: Final = (1, 3, 5)


class StateSettings(Section):
    """``[system.state]``: how the catalogue survives."""

    enforce_fsync: bool = True
    """Acknowledge a command only when it is on the device. Without, a loss of power may lose the newest
    commands; the death of the process never does. A cluster always syncs."""

    snapshot_commands: Annotated[int, Between(1, 1_000_000)] = 1024
    """Take a snapshot, and shorten the journal, after this many entries; commands that arrive together share
    one."""

    snapshot_journal_size: Annotated[Size, Between(Size(64 * 1024), None)] = Size(16 * 1024 * 1024)
    """Take a snapshot earlier when the journal has grown by this much."""


class StorageSettings(Section):
    """``[system]``."""

    path: str = "local_metadata"
    """The folder of this replica. One process at a time uses it."""
    state: StateSettings = StateSettings()


class ClusterSettings(Section):
    """``[cluster]``: who the replicas are."""

    name: Name = "headrace"
    """Replicas and callers of another cluster are refused. It is kept in the folder."""
    members: tuple[HostPort, ...] = ("127.0.0.1:8110",)
    """Where the replicas reach each other, one, three or five of `host:port`: the same list, in the same order, for
    every replica."""
    replica: Annotated[int, Between(0, 4)] = 0
    """Which of the members this process is, from 0. It is kept in the folder."""
    listen: Address | None = None
    """Where this replica listens to the others, if not at its own address in the list."""
    given_up: tuple[Annotated[int, Between(0, 4)], ...] = ()
    """Which of the other members are gone for good, from 0. A replica that comes back with an empty folder waits for
    all other replicas, because one of them may be the only one that has what it forgot. It does not wait for these,
    and what only they had is lost. A member that stands here is not let in: take it out when it comes with an empty
    folder."""
    secret: Secret | None = None
    """What replicas and callers prove to know, at least 32 bytes (`openssl rand -hex 32` makes one). Needed as soon as
    there is more than one replica, or anything listens beyond loopback."""
    accepted_secret: Secret | None = None
    """Another secret that is accepted as well while the secret is changed: the next one first, then the one before. See
    docs/encryption.md."""
    timeouts: Literal["default", "seed", "wan"] = "default"
    """How soon a silent primary is replaced: `default` (below a second), `wan` (replicas far from each other), `seed`
    (heartbeats of 5 s)."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.members) not in _MEMBERS_COUNTS:
            raise ValueError(f"there are {len(self.members)} members: one, three or five are possible")
        if len(set(self.members)) < len(self.members):
            raise ValueError("a member stands in the list twice")
        if self.replica >= len(self.members):
            raise ValueError(f"replica = {self.replica}, but the members are 0 to {len(self.members) - 1}")
        if self.replica in self.given_up or any(member >= len(self.members) for member in self.given_up):
            raise ValueError("given_up names other members, by their place in the list")
        if len(set(self.given_up)) > len(self.members) // 2:
            raise ValueError("a majority of the members must be left: fewer can be given up")
        check_secrets(self.secret, self.accepted_secret)
        if self.secret is None and len(self.members) > 1:
            raise ValueError("several replicas need a secret")
        return self

    @property
    def secrets(self) -> tuple[str, ...]:
        """Those by which others are known, its own first."""
        return secrets_of(self.secret, self.accepted_secret)

    @property
    def replicas_address(self) -> str | None:
        """The setting by which this replica listens to others beyond loopback, if it does."""
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
    """``[grpc]``."""

    address: Address = Address.parse("127.0.0.1:8111")
    """Where commands, reads and watches are served; port 0 picks a free one."""


class MetricsSettings(Section):
    """``[metrics]``."""

    address: Address | None = None
    """Where metrics are served over HTTP in the text format of Prometheus, under `/metrics`; nowhere by default. Where
    there is a secret, who asks presents the token that is derived from it. `/health` tells anybody whether the replica
    is at work."""


class TlsSettings(Section):
    """``[tls]``: for the connections of callers and for those between replicas."""

    certificate: str | None = None
    """PEM file with the certificate of this replica, followed by those between it and the authority."""
    key: str | None = None
    """PEM file with its private key."""
    authority: str | None = None
    """PEM file with the certificate that those of the other replicas are signed by."""
    certificate_check_interval: Annotated[Duration, Between(Duration.parse("10 ms"), Duration.parse("1 day"))] = (
        Duration.parse("10 s")
    )
    """How often the files are looked at: a new certificate, and a new authority, are for connections that are made from
    then on, those between replicas included. What cannot be used is reported, and the old one stays. The signal USR1
    makes it happen at once."""

    @model_validator(mode="after")
    def _all_or_nothing(self) -> Self:
        if len({self.certificate is None, self.key is None, self.authority is None}) > 1:
            raise ValueError("certificate, key and authority are given together or not at all")
        return self

    @property
    def files(self) -> tuple[str, str, str] | None:
        """Certificate, key and authority; none if nothing is to be encrypted."""
        if self.certificate is None or self.key is None or self.authority is None:
            return None
        return self.certificate, self.key, self.authority


class TracingSettings(TraceExportConfig):
    """`[tracing]`: the spans of calls that are part of a recorded trace."""

    service_name: str = "headrace-metadata"
    """What this process is called in traces."""


class MetadataConfig(Section):
    """Everything that the service process can be told."""

    cluster: ClusterSettings = ClusterSettings()
    grpc: GrpcSettings = GrpcSettings()
    tls: TlsSettings = TlsSettings()
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
                f"{self.cluster.replicas_address} is not loopback: tls.certificate, tls.key and tls.authority are "
                "needed, as whoever reads and changes what replicas send each other could give commands"
            )
        if self.grpc.address.ip.is_loopback:
            return self
        if self.cluster.secret is None:
            raise ValueError(f"grpc.address = {self.grpc.address} is not loopback: cluster.secret is needed")
        if self.tls.files is None:
            raise ValueError(
                f"grpc.address = {self.grpc.address} is not loopback: tls.certificate, tls.key and tls.authority are "
                "needed, as whoever reads the traffic could give commands"
            )
        return self


def load_config(
    file: Path | None, environment: Mapping[str, str], options: Mapping[str, tuple[str, str]] | None = None
) -> Loaded[MetadataConfig]:
    """Read the configuration of the service process.

    Raises:
        SettingsError: Something is unknown or wrong.
    """
    renamed = {"system.logging.level": "logging.level"}
    return load(MetadataConfig, file=file, environment=environment, prefix=PREFIX, options=options, renamed=renamed)
