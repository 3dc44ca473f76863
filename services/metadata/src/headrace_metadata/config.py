"""Settings of the metadata service."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import model_validator

from headrace_settings import Address, Between, Duration, Loaded, Secret, Section, Size, load
from headrace_settings.log_output import LoggingSettings
from headrace_settings.names import HostPort, Name

PREFIX: Final = "HEADRACE_METADATA"
"""Of the environment variables of the service process: ``grpc.address`` is ``HEADRACE_METADATA_GRPC_ADDRESS``."""

SECRET_BYTES_MIN: Final = 16

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
    secret: Secret | None = None
    """What replicas and callers prove to know, at least 16 bytes. Needed as soon as there is more than one replica, or
    anything listens beyond loopback."""
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
        if self.secret is not None and len(self.secret.reveal().encode()) < SECRET_BYTES_MIN:
            raise ValueError(f"the secret has less than {SECRET_BYTES_MIN} bytes")
        if self.secret is None and len(self.members) > 1:
            raise ValueError("several replicas need a secret")
        return self


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
    """How often the files are looked at: a new certificate is shown to callers that connect from then on, and one that
    cannot be used is reported, and the old one stays. The signal USR1 makes it happen at once. The connections between
    replicas take theirs at the start."""

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


class MetadataConfig(Section):
    """Everything that the service process can be told."""

    cluster: ClusterSettings = ClusterSettings()
    grpc: GrpcSettings = GrpcSettings()
    tls: TlsSettings = TlsSettings()
    metrics: MetricsSettings = MetricsSettings()
    system: StorageSettings = StorageSettings()
    logging: LoggingSettings = LoggingSettings()

    @model_validator(mode="after")
    def _nothing_open_beyond_loopback(self) -> Self:
        metrics = self.metrics.address
        if metrics is not None and not metrics.ip.is_loopback and self.cluster.secret is None:
            raise ValueError(f"metrics.address = {metrics} is not loopback: cluster.secret is needed")
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
