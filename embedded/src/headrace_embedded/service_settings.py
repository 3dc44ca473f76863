"""Settings of each service, loaded as its process would, without starting it."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from headrace_embedded import config as embedded
from headrace_gateway.service import config as gateway
from headrace_metadata import config as metadata
from headrace_partition_node import config as node
from headrace_settings import Loaded, Problem, Section, settings_of


class Service(StrEnum):
    """Processes with settings."""

    EMBEDDED = "embedded"
    METADATA = "metadata"
    NODE = "node"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Method by which one kind of process reads its settings."""

    model: type[Section]
    prefix: str
    """Prefix of its environment variables."""
    load: Callable[[Path | None, Mapping[str, str]], Loaded[Any]]
    process: str
    """Name of the process in the reference."""


SERVICES: dict[Service, ServiceSettings] = {
    Service.EMBEDDED: ServiceSettings(
        embedded.EmbeddedConfig, embedded.PREFIX, embedded.load_config, "embedded server, `headrace up`"
    ),
    Service.GATEWAY: ServiceSettings(gateway.GatewayServiceConfig, gateway.PREFIX, gateway.load_config, "gateway"),
    Service.NODE: ServiceSettings(node.PartitionNodeConfig, node.PREFIX, node.load_config, "partition node"),
    Service.METADATA: ServiceSettings(
        metadata.MetadataConfig, metadata.PREFIX, metadata.load_config, "replica of the metadata service"
    ),
}
"""All kinds of processes, in the order of the columns of the reference."""

# Settings that name a certificate file, with the sibling setting for its key.
_KEYS = {"cert_file": "key_file"}
_AUTHORITIES = ("authority", "client_ca_file")


def file_problems(loaded: Loaded[Any]) -> list[Problem]:
    """Return problems of the certificate files that the settings name; must run on the service's machine."""
    found: list[tuple[tuple[str, ...], str | None]] = []
    for section, values in _texts_by_section(loaded.config):
        for name, key_name in _KEYS.items():
            if name in values and key_name in values:
                found.append(((*section, name), _not_a_pair(values[name], values[key_name])))
        found += [((*section, name), _not_an_authority(values[name])) for name in _AUTHORITIES if name in values]
    return [
        Problem(".".join(path), message, origin=loaded.origin(path)) for path, message in found if message is not None
    ]


def _texts_by_section(config: Section) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    sections: dict[tuple[str, ...], dict[str, str]] = {}
    for setting in settings_of(type(config)):
        value: object = config
        for name in setting.path:
            value = getattr(value, name)
        if isinstance(value, str):
            sections.setdefault(setting.path[:-1], {})[setting.path[-1]] = value
    yield from sections.items()


def _not_a_pair(certificate: str, key: str) -> str | None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        return f"{certificate} and {key} are not a certificate and its private key: {error.reason or error}"
    except OSError as error:
        return f"{certificate} or {key} cannot be read: {error.strerror}"
    return None


def _not_an_authority(file: str) -> str | None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except ssl.SSLError as error:
        return f"{file} holds no certificates: {error.reason or error}"
    except OSError as error:
        return f"{file} cannot be read: {error.strerror}"
    return None
