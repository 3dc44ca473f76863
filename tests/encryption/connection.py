"""A raw connection through TLS."""

from __future__ import annotations

import socket
import ssl
from typing import Self, cast

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import PASSWORD, USERNAME


class TlsConnection(RawConnection):
    """The binary protocol over TLS."""

    def __init__(
        self,
        address: str,
        context: ssl.SSLContext,
        name: str = "localhost",
        *,
        session: ssl.SSLSession | None = None,
    ) -> None:
        super().__init__(address)
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname=name, session=session)
        except BaseException:
            self.socket.close()
            raise

    @property
    def tls(self) -> ssl.SSLSocket:
        """The socket as an `ssl.SSLSocket`."""
        return cast("ssl.SSLSocket", self.socket)

    @classmethod
    def logged_in(cls, address: str, context: ssl.SSLContext, name: str = "localhost") -> Self:
        """A connection of root's."""
        connection = cls(address, context, name)
        connection.ok(Code.LOGIN_USER, frames.login(USERNAME, PASSWORD))
        return connection

    def shown_certificate(self) -> bytes:
        """The certificate that the server has shown."""
        shown = self.tls.getpeercert(binary_form=True)
        assert shown is not None
        return shown

    def end(self) -> bytes:
        """Send `close_notify`, and return the data that the server still sends until it closes its side."""
        plain = self.tls.unwrap()
        rest = b""
        plain.settimeout(10)
        while part := plain.recv(1024):
            rest += part
        plain.close()
        return rest

    def abort(self) -> None:
        """End the connection by a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.socket.close()
