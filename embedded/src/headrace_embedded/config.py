"""Configuration of the embedded server, composed of the configurations of its services."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import model_validator

from headrace_chassis.log_output import LoggingSettings
from headrace_chassis.tls import TlsSettings, former_names
from headrace_gateway.config import GatewayConfig, RootUserConfig, TopicConfig
from headrace_metadata.config import COMMAND_LINE_VARIABLES, StateSettings
from headrace_node.config import ShardsConfig, StorageConfig
from headrace_partition_node.config import GrpcSettings
from headrace_settings import Loaded, Secret, Section, load
from headrace_settings.units.names import Name

PREFIX = "HEADRACE"
"""Prefix of environment variables."""
_ALIASES = {"IGGY_ROOT_USERNAME": "root.username", "IGGY_ROOT_PASSWORD": "root.password"}
RENAMED = {"http.web_ui": "http.console.enabled", "cluster.node.current.name": "cluster.node_name"}
"""Settings of the Iggy server that have another name here."""
# Variables with this prefix that belong to the command line. Those who use it have them in each of their shells.
_RESERVED = (
    "HEADRACE_CONFIG",
    "HEADRACE_CONNECTORS_TOKEN",
    "HEADRACE_CONNECTORS_URL",
    "HEADRACE_CONTEXT",
    "HEADRACE_CURRENT_PASSWORD",
    "HEADRACE_NEW_PASSWORD",
    "HEADRACE_PASSWORD",
    "HEADRACE_SERVER",
    "HEADRACE_TOKEN",
    "HEADRACE_URL",
    "HEADRACE_USERNAME",
    *COMMAND_LINE_VARIABLES,
)


class RootConfig(RootUserConfig):
    """`root`: the user that the first start creates."""

    username: str | None = None
    """Name of the root user, used once: at the first start with an empty data directory. 3 to 50 bytes. Also
    `IGGY_ROOT_USERNAME`.
    """
    password: Secret | None = None
    """Password of the root user, 3 to 100 bytes; if not set, it is generated and printed once. Also
    `IGGY_ROOT_PASSWORD`.
    """


class SystemConfig(StorageConfig):
    """`system`: storage, shared by all services."""

    topic: TopicConfig = TopicConfig()
    state: StateSettings = StateSettings()
    logging: LoggingSettings = LoggingSettings()

    @model_validator(mode="after")
    def _topics_hold_at_least_a_segment(self) -> Self:
        # Only whole segments are deleted: a topic with a smaller limit could never get below it.
        if self.topic.max_size.bytes < self.segment.size.bytes:
            raise ValueError(f"topic.max_size = {self.topic.max_size} is less than segment.size = {self.segment.size}")
        return self


class PipelinesConfig(GrpcSettings):
    """`pipelines`: raw batches from and to partitions, for clients with a ticket."""

    enabled: bool = True
    """Enable the listener for pipelines."""
    tls: TlsSettings = TlsSettings()

    @model_validator(mode="after")
    def _others_can_find_it(self) -> Self:
        if self.enabled and self.address.ip.is_unspecified and self.advertised is None:
            raise ValueError(
                f"address = {self.address} covers all addresses of this machine: set advertised to the address that "
                "others connect to"
            )
        return self


class ClusterConfig(Section):
    """`cluster`: answer to clients that ask for the nodes of the cluster; the cluster consists of this server."""

    name: Name = "single-node"
    """Name of the cluster."""
    node_name: Name = "iggy-node"
    """Name of this server in the cluster."""


class EmbeddedConfig(GatewayConfig, ShardsConfig):
    """All settings of the embedded server."""

    cluster: ClusterConfig = ClusterConfig()
    pipelines: PipelinesConfig = PipelinesConfig()
    system: SystemConfig = SystemConfig()
    root: RootConfig = RootConfig()

    @property
    def beyond_loopback(self) -> dict[str, bool]:
        """Settings with addresses reachable from other machines, with the port for pipelines; true if encrypted."""
        pipelines = self.pipelines
        beyond = super().beyond_loopback
        if pipelines.enabled and not pipelines.address.ip.is_loopback:
            beyond[f"pipelines.address = {pipelines.address}"] = pipelines.tls.cert_file is not None
        return beyond

    @model_validator(mode="after")
    def _root_password_is_not_public(self) -> Self:
        if self.root.password is not None:
            self.check_root_password(self.root.password.reveal())
        return self


def load_config(
    file: Path | None,
    environment: Mapping[str, str],
    options: Mapping[str, tuple[str, str]] | None = None,
) -> Loaded[EmbeddedConfig]:
    """Read the embedded server's configuration.

    Args:
        file: A TOML file, if any.
        environment: Usually ``os.environ``; no other environment is read.
        options: Command line options by dotted setting name, each as typed, with its text.

    Raises:
        SettingsError: A setting is unknown or invalid.
    """
    return load(
        EmbeddedConfig,
        file=file,
        environment=environment,
        prefix=PREFIX,
        options=options,
        aliases=_ALIASES,
        reserved=_RESERVED,
        renamed=RENAMED,
        former=former_names("pipelines.tls"),
    )
