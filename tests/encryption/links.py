"""Certificates for links between gateways and partition nodes."""

from __future__ import annotations

from pathlib import Path

import trustme

from tests.cluster import Settings
from tests.encryption.certificates import ServerFiles


class LinkFiles:
    """One authority, a certificate for the nodes at 127.0.0.1, and one that gateways show."""

    def __init__(self, directory: Path) -> None:
        self.authority = trustme.CA()
        parts = [directory / part for part in ("node", "gateway")]
        for part in parts:
            part.mkdir(parents=True)
        self.node, self.gateway = (ServerFiles(part, self.authority) for part in parts)
        self.node.write("127.0.0.1")
        self.gateway.write("gateways", common_name="gateways")

    @property
    def node_settings(self) -> Settings:
        """Settings of nodes that accept only TLS links from gateways of the cluster."""
        return {
            "binary.tls.enabled": True,
            "binary.tls.cert_file": str(self.node.certificate),
            "binary.tls.key_file": str(self.node.key),
            "binary.tls.client_certificates": "required",
            "binary.tls.client_ca_file": str(self.node.authority_file),
        }

    @property
    def gateway_settings(self) -> Settings:
        """Settings of the gateways of these nodes."""
        return {
            "links.tls.enabled": True,
            "links.tls.authority": str(self.gateway.authority_file),
            "links.tls.cert_file": str(self.gateway.certificate),
            "links.tls.key_file": str(self.gateway.key),
        }
