"""Certificates for one test: an authority, what it signs, and the files that a server reads."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import trustme

NOW = datetime.datetime.now(datetime.UTC)
LONG_AGO = NOW - datetime.timedelta(days=20)
YESTERDAY = NOW - datetime.timedelta(days=1)
TOMORROW = NOW + datetime.timedelta(days=1)


class ServerFiles:
    """The PEM files of one server; writing them again is a renewal."""

    def __init__(self, directory: Path, authority: trustme.CA) -> None:
        self.certificate = directory / "server.pem"
        self.key = directory / "server.key"
        self.authority_file = directory / "authority.pem"
        self.authority = authority
        authority.cert_pem.write_to_path(self.authority_file)

    def settings(self, listener: str = "TCP_TLS") -> dict[str, str]:
        """Settings of a listener with this certificate."""
        return {f"{listener}_CERT_FILE": str(self.certificate), f"{listener}_KEY_FILE": str(self.key)}

    def write(
        self,
        *names: str,
        not_before: datetime.datetime | None = None,
        not_after: datetime.datetime | None = None,
        key_type: trustme.KeyType = trustme.KeyType.ECDSA,
        common_name: str | None = None,
    ) -> None:
        """Issue a certificate for these names, `localhost` if none is given, and put it in place."""
        leaf = self.authority.issue_cert(
            *(names or ("localhost", "127.0.0.1")),
            common_name=common_name,
            not_before=not_before,
            not_after=not_after,
            key_type=key_type,
        )
        self.place(leaf)

    def place(self, leaf: trustme.LeafCert) -> None:
        """Replace a certificate and its key atomically, file by file, as renewal programs do."""
        for path, content in (
            (self.key, leaf.private_key_pem.bytes()),
            (self.certificate, b"".join(blob.bytes() for blob in leaf.cert_chain_pems)),
        ):
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_bytes(content)
            unfinished.rename(path)

    def trusting(self, *, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        """A client context that trusts the authority; `version` is the only TLS version it supports."""
        context = ssl.create_default_context(cafile=str(self.authority_file))
        if version is not None:
            context.minimum_version = context.maximum_version = version
        return context


def unverified() -> ssl.SSLContext:
    """A client that takes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
