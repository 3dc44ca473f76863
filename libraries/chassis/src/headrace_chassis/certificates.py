"""TLS credentials of a gRPC server: certificates that are renewed at run time, as with native listeners."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import logging
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import NameOID

from headrace_chassis.background import background
from headrace_chassis.errors import CertificateError

# Validity of a generated certificate, which lives as long as the process.
_NEVER_BEFORE: Final = datetime.datetime(1975, 1, 1, tzinfo=datetime.UTC)
_NEVER_AFTER: Final = datetime.datetime(4096, 1, 1, tzinfo=datetime.UTC)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFiles:
    """Paths of a server's certificate files, as PEM."""

    section: str
    """Section of the settings that names the files; names them in messages."""
    chain: Path | None
    """Server certificate, followed by its intermediate certificates; None: a self-signed one is generated."""
    key: Path | None
    """Private key of the server certificate."""
    client_authorities: Path | None = None
    """Authorities of client certificates, which are then required; None: clients are not asked for a certificate."""
    self_signed: bool = False
    """Generate a certificate as long as the files do not exist."""


@asynccontextmanager
async def watched(files: CertificateFiles | None, interval_seconds: float) -> AsyncIterator[Certificates | None]:
    """Read the files, and check them periodically for the duration of an ``async with`` block. None without files.

    Raises:
        CertificateError: The files cannot be used.
    """
    if files is None:
        yield None
        return
    certificates = await asyncio.to_thread(Certificates, files, lambda: datetime.datetime.now(datetime.UTC))
    async with certificates.watched(interval_seconds):
        yield certificates


class _Shown(NamedTuple):
    """Own certificate, and the authorities that verify clients."""

    key: bytes
    chain: bytes
    client_authorities: bytes | None

    def configuration(self) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(self.key, self.chain)], self.client_authorities)


class _Outdated(NamedTuple):
    """Reason why a certificate is not valid now."""

    reason: str
    is_early: bool
    """Time alone makes it valid."""


class Certificates:
    """Certificate of a server; new files take effect for new connections."""

    def __init__(self, files: CertificateFiles, now: Callable[[], datetime.datetime]) -> None:
        """Read the files, or generate a certificate if there are none.

        Args:
            files: The paths.
            now: Returns the time, with its zone.

        Raises:
            CertificateError: The files cannot be used.
        """
        self._files = files
        self._now = now
        self._seen = self._state()
        # Reason why these files were rejected, and whether time alone removes it.
        self._complaint = ""
        self._is_early = False
        self._shown = self._at_first()
        # Protects the state shared by the checking thread and the library's handshake threads.
        self._lock = threading.Lock()
        self._new: _Shown | None = None
        self._contexts: list[ssl.SSLContext] = []
        _log.info("%s: certificate of %s in use", files.section, _described(self._shown.chain))

    def credentials(self) -> grpc.ServerCredentials:
        """Credentials for a gRPC server."""
        return grpc.dynamic_ssl_server_credentials(
            self._shown.configuration(),
            # The library takes None for "unchanged", which its type information does not know.
            self._replacement,  # type: ignore[arg-type]
            require_client_authentication=self._files.client_authorities is not None,
        )

    def show_in(self, context: ssl.SSLContext) -> None:
        """Use the certificate in a server's context, now and after each change.

        Raises:
            OSError: The context cannot use it.
        """
        if self._files.chain is None:
            raise AssertionError("a context reads files, and a generated certificate has none")
        context.load_cert_chain(self._files.chain, self._files.key)
        self._contexts.append(context)

    @asynccontextmanager
    async def watched(self, interval_seconds: float) -> AsyncIterator[None]:
        """Check the files periodically for the duration of an ``async with`` block."""
        async with background(self._watch(interval_seconds), f"{self._files.section}-certificates"):
            yield

    async def _watch(self, interval_seconds: float) -> NoReturn:
        while True:
            await asyncio.sleep(interval_seconds)
            await self.look()

    async def look(self) -> None:
        """Check the files now; an invalid certificate leaves the old one in place."""
        await asyncio.to_thread(self._look)

    def _at_first(self) -> _Shown:
        files = self._files
        try:
            if files.chain is None:
                return _made(self._authorities())
            try:
                shown = self._read()
            except FileNotFoundError as error:
                if not files.self_signed:
                    raise
                _log.warning("%s: %s does not exist, a generated certificate is used", files.section, error.filename)
                return _made(self._authorities())
        except OSError as error:
            raise CertificateError(f"{files.section}: {error.filename}: {error.strerror}") from error
        except ValueError as error:
            raise CertificateError(f"{files.section}: {error}") from error
        outdated = _outdated(shown.chain, self._now())
        if outdated is not None:
            _log.warning(
                "%s: the certificate %s; clients that verify it will refuse it", files.section, outdated.reason
            )
        return shown

    def _look(self) -> None:
        state = self._state()
        is_changed = state != self._seen
        if self._files.chain is None or not (is_changed or self._is_early):
            return
        self._seen = state
        try:
            shown = self._read()
            outdated = _outdated(shown.chain, self._now())
            self._is_early = outdated is not None and outdated.is_early
            if outdated is not None:
                raise ValueError(f"{self._files.chain} {outdated.reason}")
            if shown != self._shown:
                self._load_into_contexts()
        except (OSError, ValueError) as error:
            # Report the outcome once per content of the files.
            if is_changed or str(error) != self._complaint:
                section = self._files.section
                _log.warning("%s: new certificate rejected, the previous one stays in use: %s", section, error)
            self._complaint = str(error)
            return
        if shown != self._shown:
            with self._lock:
                self._shown = self._new = shown
            _log.info("%s: certificate replaced by that of %s", self._files.section, _described(shown.chain))

    def _load_into_contexts(self) -> None:
        chain, key = self._files.chain, self._files.key
        if chain is not None:
            for context in self._contexts:
                context.load_cert_chain(chain, key)

    def _state(self) -> bytes:
        """Digest of the state of the files, for detecting changes."""
        files, digest = self._files, hashlib.sha256()
        for file in (files.chain, files.key, files.client_authorities):
            try:
                content = file.read_bytes() if file is not None else b""
            except OSError as error:
                content = str(error).encode()
            digest.update(hashlib.sha256(content).digest())
        return digest.digest()

    def _read(self) -> _Shown:
        files = self._files
        if files.chain is None or files.key is None:
            raise AssertionError("set both or neither")
        chain, key = files.chain.read_bytes(), files.key.read_bytes()
        try:
            leaf = x509.load_pem_x509_certificates(chain)[0]
            private = serialization.load_pem_private_key(key, password=None)
            are_a_pair = _encoded(private.public_key()) == _encoded(leaf.public_key())
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise ValueError(f"{files.chain} and {files.key}: {error}") from error
        if not are_a_pair:
            raise ValueError(f"{files.key} is not the key of {files.chain}")
        return _Shown(key, chain, self._authorities())

    def _authorities(self) -> bytes | None:
        file = self._files.client_authorities
        if file is None:
            return None
        content = file.read_bytes()
        try:
            x509.load_pem_x509_certificates(content)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise ValueError(f"{file}: {error}") from error
        return content

    def _replacement(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the new configuration, or None if unchanged. Called at each handshake, on threads of the library."""
        with self._lock:
            new, self._new = self._new, None
        return new.configuration() if new is not None else None


def _encoded(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _outdated(chain: bytes, now: datetime.datetime) -> _Outdated | None:
    leaf = x509.load_pem_x509_certificates(chain)[0]
    if now < leaf.not_valid_before_utc:
        return _Outdated(f"is not valid before {leaf.not_valid_before_utc}", is_early=True)
    if now > leaf.not_valid_after_utc:
        return _Outdated(f"has expired at {leaf.not_valid_after_utc}", is_early=False)
    return None


def _described(chain: bytes) -> str:
    leaf = x509.load_pem_x509_certificates(chain)[0]
    return f"{leaf.subject.rfc4514_string()}, valid until {leaf.not_valid_after_utc}"


def _made(authorities: bytes | None) -> _Shown:
    """Generate a self-signed certificate for `localhost`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NEVER_BEFORE)
        .not_valid_after(_NEVER_AFTER)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return _Shown(encoded, certificate.public_bytes(serialization.Encoding.PEM), authorities)
