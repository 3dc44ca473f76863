"""Settings of the gateway as a process of its own."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import AfterValidator, model_validator

from headrace_chassis.log_output import LoggingSettings
from headrace_chassis.tls import TlsSettings
from headrace_gateway.config import GatewayConfig, RootUserConfig, TopicConfig
from headrace_metadata_client import ClusterSettings
from headrace_node.config import (
    MemoryPoolConfig,
    RuntimeConfig,
    SegmentConfig,
    ShardingConfig,
    ShardsConfig,
    StorageConfig,
)
from headrace_settings import Address, Between, Duration, Loaded, Secret, Section, SharedBy, Size, load
from headrace_settings.units.names import Name

PREFIX: Final = "HEADRACE_GATEWAY"
"""Prefix of environment variables: ``http.address`` is ``HEADRACE_GATEWAY_HTTP_ADDRESS``."""

_RENAMED: Final = {
    "http.web_ui": "http.console.enabled",
    "system.logging.level": "logging.level",
    "cluster.node.current.name": "gateway.name",
}
_HOST_NAME: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?")


class IdentitySettings(Section):
    """`gateway`: identity of this gateway in the cluster, and its address for clients."""

    name: Name | None = None
    """Name of this gateway, unique in the cluster and the same in every run: the start removes the consumer group
    members that an earlier run has left. Default: the host name. The list of cluster nodes for clients contains this
    name, or `iggy-node` if it is not set.
    """
    advertised_address: Address | None = None
    """Address that clients of the binary protocol over TCP are directed to, such as the load balancer's address; if not
    set, the address this gateway listens on.
    """
    drain_time: Annotated[Duration, Between(Duration(0), Duration.parse("1 h"))] = Duration(0)
    """Time before the stop during which `/health` reports that clients should use another gateway while this one still
    serves them; choose the time a load balancer needs to notice. 0: stop at once.
    """

    @property
    def known_as(self) -> str:
        """Effective name."""
        return self.name or socket.gethostname()


def _host_name(text: str) -> str:
    try:
        ip_address(text)
    except ValueError:
        if not _HOST_NAME.fullmatch(text):
            raise ValueError(f"{text!r} is not a valid host name") from None
    return text


class LinkTlsSettings(TlsSettings):
    """`links.tls`: TLS 1.3 for connections to partition nodes, which need `binary.tls` for it.

    The certificate is for nodes that require one of gateways.
    """

    enabled: bool = False
    """Use TLS for every connection to a node. A node without TLS, or whose certificate does not match the catalog, is
    treated as unreachable; nothing is ever sent to it unencrypted.
    """
    authority: str | None = None
    """PEM file with the authorities that sign the certificates of nodes; `cluster.authority` if not set."""
    server_name: Annotated[str, AfterValidator(_host_name)] | None = None
    """Name that the certificates of nodes must be valid for; if not set, the host of the node's address
    (`binary.advertised`).
    """


class LinkSettings(Section):
    """`links`: connections to partition nodes."""

    connect_timeout: Annotated[Duration, Between(Duration.parse("10 ms"), Duration.parse("1 m"))] = Duration.parse(
        "3 s"
    )
    """Timeout for establishing a connection, which is then retried."""
    unsent_timeout: Annotated[Duration, Between(Duration(0), Duration.parse("1 h"))] = Duration.parse("15 s")
    """Time that an unsent request waits for an unreachable node; it is refused afterwards."""
    max_silence: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 h")), SharedBy.EACH_LINK] = (
        Duration.parse("30 s")
    )
    """Time without received data after which a connection with outstanding answers is closed."""
    max_in_flight: Annotated[Size, Between(Size.parse("64 KiB"), Size.parse("1 GiB")), SharedBy.EACH_LINK] = Size.parse(
        "16 MiB"
    )
    """Maximum number of bytes in flight on one connection; further requests for the same connection wait."""
    tls: LinkTlsSettings = LinkTlsSettings()


class RootSettings(RootUserConfig):
    """`root`: the first user of the cluster."""

    username: str | None = None
    """User name, 3 to 50 bytes. The first gateway to start creates the user, once for the whole cluster; if neither
    name nor password is set, the user has to be created in another way.
    """
    password: Secret | None = None
    """Password, 3 to 100 bytes. Later starts ignore it."""


class GatewaySegmentConfig(Section):
    """`system.segment`: segments of partitions."""

    size: Annotated[Size, Between(Size.parse("4 KiB"), Size.parse("1 GiB"))] = Size.parse("1 GiB")
    """Size of a segment, the same as on the partition nodes. The size limit of a topic must not be smaller because only
    whole segments are deleted.
    """


class GatewaySystemConfig(Section):
    """`system`: topics, segments and shards."""

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
    """All settings of the gateway process."""

    cluster: ClusterSettings = ClusterSettings()
    gateway: IdentitySettings = IdentitySettings()
    links: LinkSettings = LinkSettings()
    root: RootSettings = RootSettings()
    runtime: RuntimeConfig = RuntimeConfig()
    system: GatewaySystemConfig = GatewaySystemConfig()
    logging: LoggingSettings = LoggingSettings()

    @model_validator(mode="after")
    def _root_password_is_not_public(self) -> Self:
        if self.root.password is not None:
            self.check_root_password(self.root.password.reveal())
        return self

    @model_validator(mode="after")
    def _nodes_can_be_verified(self) -> Self:
        if self.links.tls.enabled and (self.links.tls.authority or self.cluster.authority) is None:
            raise ValueError("links.tls.enabled needs links.tls.authority, or cluster.authority")
        return self

    @property
    def shards(self) -> ShardsConfig:
        """Configuration of the shards, which store nothing."""
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
        SettingsError: A setting is unknown or invalid.
    """
    return load(
        GatewayServiceConfig, file=file, environment=environment, prefix=PREFIX, options=options, renamed=_RENAMED
    )
