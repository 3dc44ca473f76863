"""The one configuration of the embedded server, composed of those of the services in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from headrace_gateway.config import GatewayConfig, RootUserConfig, TopicConfig
from headrace_metadata.config import StateSettings
from headrace_partition_node.config import GrpcSettings, TlsSettings
from headrace_settings import Loaded, Secret, Section, load
from headrace_settings.names import Name
from headrace_shards.config import ShardsConfig, StorageConfig

PREFIX = "HEADRACE"
"""Of the environment variables."""
_ALIASES = {"IGGY_ROOT_USERNAME": "root.username", "IGGY_ROOT_PASSWORD": "root.password"}
RENAMED = {"http.web_ui": "http.console.enabled", "cluster.node.current.name": "cluster.node_name"}
"""Settings of the classic server by the name that they have here."""
# Variables with our prefix that belong to the command line.
_RESERVED = ("HEADRACE_CONFIG", "HEADRACE_SERVER", "HEADRACE_USERNAME", "HEADRACE_PASSWORD")

REFERENCE_INTRODUCTION = """\
# Settings

Written by `make generate` from the configuration models: do not edit.

A setting is taken from the first of these that gives it: an option of `headrace up`, an environment variable, the
TOML file (`--config` or `HEADRACE_CONFIG`), its default. An unknown or wrong setting stops the start. An empty
variable counts as unset. Lists in variables are written `[a, b]`. A secret `x` may be given as `x_file`, the path of a
file that holds it.
"""


class RootConfig(RootUserConfig):
    """`root`."""

    username: str | None = None
    """Name of the root user, used once: at the first start on an empty data folder. 3 to 50 bytes. Also
    `IGGY_ROOT_USERNAME`."""
    password: Secret | None = None
    """Its password, 3 to 100 bytes; generated and shown once when neither is given. Also `IGGY_ROOT_PASSWORD`."""


class LoggingConfig(Section):
    """`system.logging`."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important records that are still written."""
    format: Literal["auto", "console", "json"] = "auto"
    """`console` is for people, `json` one object per line, `auto` the former on a terminal and else the latter."""


class SystemConfig(StorageConfig):
    """`system`, of all services together."""

    topic: TopicConfig = TopicConfig()
    state: StateSettings = StateSettings()
    logging: LoggingConfig = LoggingConfig()

    @model_validator(mode="after")
    def _topics_hold_at_least_a_segment(self) -> Self:
        # Only whole segments are ever dropped: a topic limited to less could never be brought below its limit.
        if self.topic.max_size.bytes < self.segment.size.bytes:
            raise ValueError(f"topic.max_size = {self.topic.max_size} is less than segment.size = {self.segment.size}")
        return self


class PipelinesConfig(GrpcSettings):
    """`pipelines`: whole batches from partitions and into them, for holders of tickets."""

    enabled: bool = True
    """Listen at all."""
    tls: TlsSettings = TlsSettings()

    @model_validator(mode="after")
    def _others_can_find_it(self) -> Self:
        if self.enabled and self.address.ip.is_unspecified and self.advertised is None:
            raise ValueError(
                f"address = {self.address} is every address of this machine: advertised has to say where others find it"
            )
        return self


class ClusterConfig(Section):
    """`cluster`: what clients that ask for the nodes of the cluster are answered, although there is one."""

    name: Name = "single-node"
    """Name of the cluster."""
    node_name: Name = "iggy-node"
    """Name of this server in it."""


class EmbeddedConfig(GatewayConfig, ShardsConfig):
    """Everything that the embedded server can be told."""

    cluster: ClusterConfig = ClusterConfig()
    pipelines: PipelinesConfig = PipelinesConfig()
    system: SystemConfig = SystemConfig()
    root: RootConfig = RootConfig()

    @property
    def beyond_loopback(self) -> dict[str, bool]:
        """As of a gateway, with the port for pipelines."""
        pipelines = self.pipelines
        beyond = super().beyond_loopback
        if pipelines.enabled and not pipelines.address.ip.is_loopback:
            beyond[f"pipelines.address = {pipelines.address}"] = pipelines.tls.certificate is not None
        return beyond

    @model_validator(mode="after")
    def _root_is_not_for_everybody(self) -> Self:
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
        environment: Usually ``os.environ``; nothing else reads it.
        options: Per dotted setting name, the option of the command line as typed and its text.

    Raises:
        SettingsError: Something is unknown or wrong.
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
    )
