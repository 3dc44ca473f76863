"""The encrypted binary listener, an edge in front of the shards."""

from __future__ import annotations

import json
from typing import Any

from headrace_node.edge import edge_fields
from headrace_partition_node.config import PartitionNodeConfig


def edge_document(config: PartitionNodeConfig) -> str:
    """Return the JSON document that `headrace_core.Edge` takes; without encryption it contains no listener."""
    return json.dumps({"binary": _binary(config), **edge_fields(config.edge)})


def _binary(config: PartitionNodeConfig) -> dict[str, Any] | None:
    tls, files = config.binary.tls, config.binary_files
    if not tls.enabled or files is None:
        return None
    certificate, key = files
    return {
        "address": str(config.binary.address),
        "certificate": {"cert_file": str(certificate), "key_file": str(key), "self_signed": False},
        "client_certificates": tls.client_certificates,
        "client_ca_file": config.binary_client_authority,
        "client_crl_file": tls.client_crl_file,
    }
