"""Settings of encrypted listeners: server certificates and client certificates."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import model_validator

from headrace_chassis.tls import TlsSettings
from headrace_settings import Address, Between, Duration, Section, SharedBy, Size


class CertificateConfig(TlsSettings):
    """Certificate that a listener presents."""

    self_signed: bool = True
    """Without a certificate file, generate a certificate for `localhost` (ECDSA, P-256) for the lifetime of the
    process. If false, the start fails until the files exist.
    """

    @model_validator(mode="after")
    def _a_certificate_from_somewhere(self) -> Self:
        if self.cert_file is None and not self.self_signed:
            raise ValueError("cert_file and key_file are needed unless self_signed is on")
        return self


class TlsConfig(CertificateConfig):
    """`tls` of a listener: TLS 1.2 and 1.3."""

    enabled: bool = False
    """Accept only TLS connections on the port."""
    client_certificates: Literal["none", "optional", "required"] = "none"
    """Request a certificate of clients. A client that presents one is authenticated as the user named by the common
    name of the subject or by an alternative name (host, mailbox), and need not log in. A certificate that does not name
    exactly one active user is refused (`access_denied`).
    """
    client_ca_file: str | None = None
    """PEM file with the certificate authorities of client certificates."""
    client_crl_file: str | None = None
    """PEM file with the certificate revocation lists of all these authorities. A revoked certificate is refused, and so
    is every certificate once a list has expired. A changed file is detected like a changed certificate; connections
    whose certificate is revoked are closed. An unreadable or expired list prevents the start; if it appears later, it
    is reported and not used.
    """

    @model_validator(mode="after")
    def _clients_can_be_verified(self) -> Self:
        if self.client_certificates != "none" and self.client_ca_file is None:
            raise ValueError(f"client_certificates = {self.client_certificates} needs client_ca_file")
        if self.client_certificates == "none" and self.client_crl_file is not None:
            raise ValueError("client_crl_file needs client_certificates: otherwise clients present no certificate")
        return self


class GrpcTlsConfig(CertificateConfig):
    """`grpc.tls`: TLS 1.2 and 1.3."""

    enabled: bool = False
    """Accept only TLS connections on the port."""
    client_certificates: Literal["none", "required"] = "none"
    """Require a certificate of clients. Calls without a token then belong to the user named by the common name of the
    subject or by an alternative name (host, mailbox).
    """
    client_ca_file: str | None = None
    """PEM file with the certificate authorities of client certificates."""

    @model_validator(mode="after")
    def _clients_can_be_verified(self) -> Self:
        if self.client_certificates != "none" and self.client_ca_file is None:
            raise ValueError(f"client_certificates = {self.client_certificates} needs client_ca_file")
        return self


class UdpSocketConfig(Section):
    """`quic.socket`: buffers of the UDP socket."""

    override_defaults: bool = False
    """Request socket buffers of these sizes instead of the system's defaults."""
    recv_buffer_size: Annotated[Size, Between(Size.parse("1 KB"), Size.parse("256 MiB"))] = Size.parse("64 KB")
    """Size of the receive buffer; the system may grant less."""
    send_buffer_size: Annotated[Size, Between(Size.parse("1 KB"), Size.parse("256 MiB"))] = Size.parse("64 KB")
    """Size of the send buffer; the system may grant less."""


class QuicConfig(Section):
    """`quic`: the binary protocol over QUIC.

    A connection is a session; each request uses a stream of its own. Clients offer no application protocol (ALPN).
    """

    enabled: bool = True
    """Enable the QUIC listener."""
    address: Address = Address.parse("127.0.0.1:8080")
    """Address to listen on (UDP); port 0 picks a free port."""
    max_concurrent_bidi_streams: Annotated[int, Between(1, 1_000_000), SharedBy.EACH_CONNECTION] = 10_000
    """Maximum number of concurrent requests of one connection."""
    send_window: Annotated[Size, Between(Size.parse("16 KiB"), Size.parse("64 MiB"))] = Size.parse("100 KB")
    """Maximum number of unacknowledged bytes sent to one client. A larger window is faster over long distances, and
    costs that much memory for each connection that does not read.
    """
    receive_window: Annotated[Size, Between(Size.parse("16 KiB"), Size.parse("64 MiB"))] = Size.parse("100 KB")
    """Maximum number of bytes received from one client that were not read yet."""
    initial_mtu: Annotated[Size, Between(Size(1200), Size(65_527))] = Size(1200)
    """Size of datagrams until the path MTU is discovered. A size too large for the path delays every handshake by a
    second.
    """
    keep_alive_interval: Annotated[Duration, Between(Duration(0), Duration.parse("1 h"))] = Duration.parse("5 s")
    """Interval of keep-alive packets on an idle connection; 0 disables them."""
    max_idle_timeout: Annotated[Duration, Between(Duration(0), Duration.parse("1 h")), SharedBy.EACH_CONNECTION] = (
        Duration.parse("10 s")
    )
    """Time without a packet after which a client is considered disconnected; 0 disables this."""
    certificate: CertificateConfig = CertificateConfig()
    socket: UdpSocketConfig = UdpSocketConfig()

    @model_validator(mode="after")
    def _kept_alive_before_it_dies(self) -> Self:
        if 0 < self.max_idle_timeout.micros <= self.keep_alive_interval.micros:
            raise ValueError("keep_alive_interval must be shorter than max_idle_timeout")
        return self
