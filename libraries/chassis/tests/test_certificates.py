"""A changed certificate is used for new connections of a server with an SSL context, if it is valid now."""

import asyncio
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import trustme

from headrace_chassis.certificates import CertificateFiles, Certificates, watched

AUTHORITY = trustme.CA()


def write(files, **options):
    issued = AUTHORITY.issue_cert("127.0.0.1", **options)
    issued.private_key_pem.write_to_path(files.key)
    issued.cert_chain_pems[0].write_to_path(files.chain)
    return files.chain.read_text()


@asynccontextmanager
async def listening(certificates):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates.show_in(context)
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        yield lambda: asyncio.to_thread(ssl.get_server_certificate, server.sockets[0].getsockname())


async def test_an_ssl_context_gets_what_is_valid(tmp_path):
    files = CertificateFiles(section="http.tls", chain=tmp_path / "c.pem", key=tmp_path / "k.pem")
    first = write(files)
    async with watched(files, 3600) as certificates, listening(certificates) as shown:
        assert await shown() == first
        write(files, not_after=datetime.now(UTC) - timedelta(days=1))
        await certificates.look()
        assert await shown() == first
        files.key.write_text("not a key")
        await certificates.look()
        assert await shown() == first
        second = write(files)
        await certificates.look()
        assert await shown() == second


async def test_an_early_certificate_is_used_from_its_time_on(tmp_path, caplog):
    files = CertificateFiles(section="http.tls", chain=tmp_path / "c.pem", key=tmp_path / "k.pem")
    first = write(files)
    now = datetime.now(UTC)
    certificates = Certificates(files, lambda: now)
    async with listening(certificates) as shown:
        begin = now + timedelta(days=2)
        second = write(files, not_before=begin, not_after=begin + timedelta(days=90))
        for _ in range(3):
            await certificates.look()
        assert await shown() == first
        assert caplog.text.count("is not valid before") == 1
        now = begin + timedelta(seconds=1)
        await certificates.look()
        assert await shown() == second


async def test_without_files_there_is_nothing_to_watch():
    async with watched(None, 3600) as certificates:
        assert certificates is None
