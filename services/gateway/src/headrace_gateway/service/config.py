"""Settings of the gateway as a process of its own."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import AfterValidator, model_validator

from headrace_gateway.config import GatewayConfig, RootUserConfig, TopicConfig
from headrace_metadata_client import ClusterSettings
from headrace_settings import Address, Between, Duration, Loaded, Secret, Section, Size, load
from headrace_settings.log_output import LoggingSettings
from headrace_settings.names import Name
from headrace_shards.config import (
    MemoryPoolConfig,
    RuntimeConfig,
    SegmentConfig,
    ShardingConfig,
    ShardsConfig,
    StorageConfig,
)

PREFIX: Final = "HEADRACE_GATEWAY"
"""Of the environment variables of the process: ``http.address`` is ``HEADRACE_GATEWAY_HTTP_ADDRESS``."""

_RENAMED: Final = {
    "http.web_ui": "http.console.enabled",
    "system.logging.level": "logging.level",
    "cluster.node.current.name": "gateway.name",
}
_HOST_NAME: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?")


class IdentitySettings(Section):
    """`gateway`: which gateway of the cluster this is, and where clients find it."""

    name: Name | None = None
    """Its name, the same in every run and of this gateway alone: members of consumer groups that an earlier run has
    left behind end with its start. The name of the machine if there is none. Clients that ask for the nodes of the
    cluster are answered with it; without one, with `iggy-node`."""
    advertised_address: Address | None = None
    """Where clients of the binary protocol over TCP are told to come, such as the balancer's address; to where this
    gateway listens if there is none."""
    drain_time: Annotated[Duration, Between(Duration(0), Duration.parse("1 h"))] = Duration(0)
    """For so long before it stops, this gateway says at `/health` that clients should go elsewhere, and serves them
    still: as long as a balancer needs to notice."""

    @property
    def known_as(self) -> str:
        """The name that is in force."""
        return self.name or socket.gethostname()


def _host_name(text: str) -> str:
    try:
        ip_address(text)
    except ValueError:
        if not _HOST_NAME.fullmatch(text):
            raise ValueError(f"{text!r} is no name of a host") from None
    return text


class LinkTlsSettings(Section):
    """`links.tls`: TLS 1.3 towards partition nodes, which need `binary.tls` for it."""

    enabled: bool = False
    """Every connection with a node is TLS. A node that speaks no TLS, or does not prove to be whom the catalogue says,
    is not reached; nothing ever goes to it unencrypted."""
    authority: str | None = None
    """PEM file with what the certificates of nodes are signed by; `cluster.authority` if there is none."""
    cert_file: str | None = None
    """PEM file with the certificate that nodes are shown, followed by those between it and its authority: for nodes
    that ask for one. New files are noticed as those of doors are (`edge.certificate_check_interval`)."""
    key_file: str | None = None
    """PEM file with its private key (PKCS#8, PKCS#1 or SEC1)."""
    server_name: Annotated[str, AfterValidator(_host_name)] | None = None
    """What the certificates of nodes have to be for, if not for the host at which each of them is found
    (`binary.advertised`)."""

    @model_validator(mode="after")
    def _all_or_nothing(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file are given together or not at all")
        return self


class LinkSettings(Section):
    """`links`: the connections with partition nodes."""

    connect_timeout: Annotated[Duration, Between(Duration.parse("10 ms"), Duration.parse("1 m"))] = Duration.parse(
        "3 s"
    )
    """A connection that is not there after so long is given up, and tried again."""
    patience: Annotated[Duration, Between(Duration(0), Duration.parse("1 h"))] = Duration.parse("15 s")
    """What was not sent waits so long for a node that cannot be reached, and is refused then."""
    max_silence: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 h"))] = Duration.parse("30 s")
    """A connection on which answers are due and nothing is heard for so long is given up."""
    max_in_flight: Annotated[Size, Between(Size.parse("64 KiB"), Size.parse("1 GiB"))] = Size.parse("16 MiB")
    """What may be on its way over one connection; beyond it, those clients wait that want this very one."""
    tls: LinkTlsSettings = LinkTlsSettings()


class RootSettings(RootUserConfig):
    """`root`: the first user of the cluster."""

    username: str | None = None
    """Its name, 3 to 50 bytes. The gateway that comes first creates it, once for the whole cluster; with neither name
    nor password somebody else has to."""
    password: Secret | None = None
    """Its password, 3 to 100 bytes. Later starts do not look at it."""


class GatewaySegmentConfig(Section):
    """`system.segment`."""

    size: Annotated[Size, Between(Size.parse("4 KiB"), Size.parse("1 GiB"))] = Size.parse("1 GiB")
    """As on the partition nodes: no topic may be limited to less, as only whole segments are ever dropped."""


class GatewaySystemConfig(Section):
    """`system`."""

    topic: TopicConfig = TopicConfig()
    segment: GatewaySegmentConfig = GatewaySegmentConfig()
    memory_pool: MemoryPoolConfig = MemoryPoolConfig()
    sharding: ShardingConfig = ShardingConfig()

    @model_validator(mode="after")
    def _topics_hold_at_least_a_segment(self) -> Self:
        if self.topic.max_size.bytes < self.segment.size.bytes:
            raise ValueError(f"topic.max_size = {self.topic.max_size} is less than segment.size = {self.segment.size}")
        return self


class GatewayServiceConfig(GatewayConfig):
    """Everything that the process can be told."""

    cluster: ClusterSettings = ClusterSettings()
    gateway: IdentitySettings = IdentitySettings()
    links: LinkSettings = LinkSettings()
    root: RootSettings = RootSettings()
    runtime: RuntimeConfig = RuntimeConfig()
    system: GatewaySystemConfig = GatewaySystemConfig()
    logging: LoggingSettings = LoggingSettings()

    @model_validator(mode="after")
    def _root_is_not_for_everybody(self) -> Self:
        if self.root.password is not None:
            self.check_root_password(self.root.password.reveal())
        return self

    @model_validator(mode="after")
    def _somebody_vouches_for_nodes(self) -> Self:
        if self.links.tls.enabled and (self.links.tls.authority or self.cluster.authority) is None:
            raise ValueError("links.tls.enabled needs links.tls.authority, or cluster.authority")
        return self

    @property
    def shards(self) -> ShardsConfig:
        """What the shards are told, who store nothing."""
        system = self.system
        storage = StorageConfig(
            segment=SegmentConfig(size=system.segment.size), memory_pool=system.memory_pool, sharding=system.sharding
        )
        return ShardsConfig(runtime=self.runtime, system=storage)


def load_config(
    file: Path | None, environment: Mapping[str, str], options: Mapping[str, tuple[str, str]] | None = None
) -> Loaded[GatewayServiceConfig]:
    """Read the configuration of the process.

    Raises:
        SettingsError: Something is unknown or wrong.
    """
    return load(
        GatewayServiceConfig, file=file, environment=environment, prefix=PREFIX, options=options, renamed=_RENAMED
    )
