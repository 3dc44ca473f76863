"""The one configuration of the embedded server, composed of those of the services in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from headrace_gateway.config import GatewayConfig, TopicConfig
from headrace_metadata.config import StateSettings
from headrace_partition_node.config import PartitionNodeConfig, StorageConfig
from headrace_proto.limits import PASSWORD_BYTES, USERNAME_BYTES
from headrace_settings import Loaded, Secret, Section, load

_PREFIX = "HEADRACE"
_ALIASES = {"IGGY_ROOT_USERNAME": "root.username", "IGGY_ROOT_PASSWORD": "root.password"}
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


class RootConfig(Section):
    """`root`."""

    username: str | None = None
    """Name of the root user, used once: at the first start on an empty data folder. 3 to 50 bytes. Also
    `IGGY_ROOT_USERNAME`."""
    password: Secret | None = None
    """Its password, 3 to 100 bytes; generated and shown once when neither is given. Also `IGGY_ROOT_PASSWORD`."""

    @model_validator(mode="after")
    def _both_or_neither(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password are given together or not at all")
        if self.username is not None and len(self.username.encode()) not in USERNAME_BYTES:
            raise ValueError("the username has 3 to 50 bytes")
        if self.password is not None and len(self.password.reveal().encode()) not in PASSWORD_BYTES:
            raise ValueError("the password has 3 to 100 bytes")
        return self


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


class EmbeddedConfig(GatewayConfig, PartitionNodeConfig):
    """Everything that the embedded server can be told."""

    system: SystemConfig = SystemConfig()
    root: RootConfig = RootConfig()


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
        prefix=_PREFIX,
        options=options,
        aliases=_ALIASES,
        reserved=_RESERVED,
    )
