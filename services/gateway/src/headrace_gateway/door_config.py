"""Settings of the doors that encrypt: certificates of the server, certificates of its clients."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import model_validator

from headrace_settings import Address, Between, Duration, Section, Size


class CertificateConfig(Section):
    """What a door shows."""

    self_signed: bool = True
    """Where there is no certificate file, make a certificate for `localhost` (ECDSA, P-256) that lives as long as the
    process. Without, the start is refused until the files are there."""
    cert_file: str | None = None
    """PEM file with the certificate, followed by those between it and its authority. A new one is noticed and used for
    new connections; one that cannot be used, or is not valid now, is reported, and the old one stays."""
    key_file: str | None = None
    """PEM file with its private key (PKCS#8, PKCS#1 or SEC1)."""

    @model_validator(mode="after")
    def _a_certificate_from_somewhere(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file are given together or not at all")
        if self.cert_file is None and not self.self_signed:
            raise ValueError("cert_file and key_file are needed unless self_signed is on")
        return self


class TlsConfig(CertificateConfig):
    """`tls` of a listener: TLS 1.2 and 1.3."""

    enabled: bool = False
    """Every connection on the port is TLS."""
    client_certificates: Literal["none", "optional", "required"] = "none"
    """Whether clients are asked for a certificate. Who shows one is the user of that name and need not log in: the
    common name of its subject, or an alternative name (host, mailbox). A certificate that is not of one active user is
    refused (`access_denied`)."""
    client_ca_file: str | None = None
    """PEM file with the authorities that the certificates of clients are signed by."""
    client_crl_file: str | None = None
    """PEM file with the certificate revocation lists of all these authorities: a certificate that is in one is refused,
    and so is every certificate once a list has ended. A new file is noticed like a new certificate; connections whose
    certificate is in it end. One that cannot be read, or has ended, keeps the server from starting, and is reported and
    not used afterwards."""

    @model_validator(mode="after")
    def _somebody_vouches_for_clients(self) -> Self:
        if self.client_certificates != "none" and self.client_ca_file is None:
            raise ValueError(f"client_certificates = {self.client_certificates} needs client_ca_file")
        if self.client_certificates == "none" and self.client_crl_file is not None:
            raise ValueError("client_crl_file needs client_certificates: clients are not asked for one")
        return self


class GrpcTlsConfig(CertificateConfig):
    """`grpc.tls`: TLS 1.2 and 1.3."""

    enabled: bool = False
    """Every connection on the port is TLS."""
    client_certificates: Literal["none", "required"] = "none"
    """Whether clients have to show a certificate. Calls without a token then belong to the user of that name: the
    common name of its subject, or an alternative name (host, mailbox)."""
    client_ca_file: str | None = None
    """PEM file with the authorities that the certificates of clients are signed by."""

    @model_validator(mode="after")
    def _somebody_vouches_for_clients(self) -> Self:
        if self.client_certificates != "none" and self.client_ca_file is None:
            raise ValueError(f"client_certificates = {self.client_certificates} needs client_ca_file")
        return self


class UdpSocketConfig(Section):
    """`quic.socket`."""

    override_defaults: bool = False
    """Ask the system for buffers of these sizes in place of its own."""
    recv_buffer_size: Annotated[Size, Between(Size.parse("1 KB"), Size.parse("256 MiB"))] = Size.parse("64 KB")
    """For what has arrived and was not looked at; the system may give less."""
    send_buffer_size: Annotated[Size, Between(Size.parse("1 KB"), Size.parse("256 MiB"))] = Size.parse("64 KB")
    """For what is on its way out."""


class QuicConfig(Section):
    """`quic`: the binary protocol over QUIC.

    A connection is a session, each request has a stream of its own. Clients offer no application protocol (ALPN).
    """

    enabled: bool = True
    """Listen at all."""
    address: Address = Address.parse("127.0.0.1:8080")
    """Where to listen (UDP); port 0 picks a free one."""
    max_concurrent_bidi_streams: Annotated[int, Between(1, 1_000_000)] = 10_000
    """How many requests of one connection may be under way."""
    send_window: Annotated[Size, Between(Size.parse("16 KiB"), Size.parse("64 MiB"))] = Size.parse("100 KB")
    """How much may be on its way to one client without an acknowledgement. More is faster over long distances, and
    costs so much memory for each connection that does not read."""
    receive_window: Annotated[Size, Between(Size.parse("16 KiB"), Size.parse("64 MiB"))] = Size.parse("100 KB")
    """How much one client may have sent that was not read yet."""
    initial_mtu: Annotated[Size, Between(Size(1200), Size(65_527))] = Size(1200)
    """Size of datagrams until the path's own is found. One that is too large for the path costs every handshake a
    second."""
    keep_alive_interval: Annotated[Duration, Between(Duration(0), Duration.parse("1 h"))] = Duration.parse("5 s")
    """How often a connection at rest is kept alive; 0: it is not."""
    max_idle_timeout: Annotated[Duration, Between(Duration(0), Duration.parse("1 h"))] = Duration.parse("10 s")
    """A client that is silent for so long is gone; 0: never."""
    certificate: CertificateConfig = CertificateConfig()
    socket: UdpSocketConfig = UdpSocketConfig()

    @model_validator(mode="after")
    def _kept_alive_before_it_dies(self) -> Self:
        if 0 < self.max_idle_timeout.micros <= self.keep_alive_interval.micros:
            raise ValueError("keep_alive_interval must be shorter than max_idle_timeout")
        return self
