"""Client of the metadata service for other processes, with failover between its replicas."""

from headrace_metadata_client.access import CHANNEL_OPTIONS, MetadataTarget
from headrace_metadata_client.config import ClusterSettings
from headrace_metadata_client.connecting import Connections, connected
from headrace_metadata_client.errors import (
    AuthorityError,
    CommandNotTakenError,
    MetadataClientError,
    MetadataUnreachableError,
    OutcomeUnknownError,
    SessionEndedError,
    UnauthenticatedError,
)
from headrace_metadata_client.pool import SessionPool
from headrace_metadata_client.reads import Reads
from headrace_metadata_client.session import Session
from headrace_metadata_client.watch import CatalogEvent, CatalogWatch

__all__ = [
    "CHANNEL_OPTIONS",
    "AuthorityError",
    "CatalogEvent",
    "CatalogWatch",
    "ClusterSettings",
    "CommandNotTakenError",
    "Connections",
    "MetadataClientError",
    "MetadataTarget",
    "MetadataUnreachableError",
    "OutcomeUnknownError",
    "Reads",
    "Session",
    "SessionEndedError",
    "SessionPool",
    "UnauthenticatedError",
    "connected",
]
