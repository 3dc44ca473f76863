"""CORS, HTTPS, and shutdown of a server (GW-3, GW-4)."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import aiohttp
import pytest
import trustme

from tests.apis.http.api import Api, batch, payloads
from tests.apis.http.conftest import Reach
from tests.compatibility.protocol.raw import eventually
from tests.conftest import StartServer
from tests.server_process import ServerDidNotStart

PREFLIGHT = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}


async def test_no_other_page_may_call_by_default(anonymous: Api) -> None:
    answer = await anonymous("OPTIONS", "/streams", headers=PREFLIGHT)
    assert answer.status == 204
    assert "Access-Control-Allow-Origin" not in answer.headers
    answer = await anonymous("GET", "/ping", headers={"Origin": "https://a.example"})
    assert answer.status == 200
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert (await anonymous("OPTIONS", "/ping")).status == 405


async def test_any_page_may_call_where_settings_say_so(start_server: StartServer, reach: Reach) -> None:
    anonymous = reach(start_server({"HTTP_CORS_ALLOWED_ORIGINS": "[*]"}))
    answer = await anonymous("OPTIONS", "/streams", headers=PREFLIGHT)
    assert answer.status == 204
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Access-Control-Allow-Methods"] == "GET, POST, PUT, DELETE"
    assert answer.headers["Access-Control-Allow-Headers"] == "content-type, authorization"
    assert "Access-Control-Allow-Credentials" not in answer.headers
    # Error responses need the header too: otherwise the page cannot read the error.
    refused = await anonymous("GET", "/streams", headers={"Origin": "https://a.example"})
    assert (refused.status, refused.headers["Access-Control-Allow-Origin"]) == (401, "*")


async def test_some_pages_only(start_server: StartServer, reach: Reach) -> None:
    server = start_server(
        {
            "HTTP_CORS_ALLOWED_ORIGINS": "[https://a.example, https://b.example]",
            "HTTP_CORS_ALLOWED_METHODS": "[GET]",
            "HTTP_CORS_EXPOSED_HEADERS": "[link, x-request-id]",
            "HTTP_CORS_ALLOW_CREDENTIALS": "true",
            "HTTP_CORS_ALLOW_PRIVATE_NETWORK": "true",
        }
    )
    anonymous = reach(server)
    private = {"Access-Control-Request-Private-Network": "true"}
    answer = await anonymous("OPTIONS", "/streams", headers=PREFLIGHT | private)
    assert answer.headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert answer.headers["Access-Control-Allow-Methods"] == "GET"
    assert answer.headers["Access-Control-Allow-Credentials"] == "true"
    assert answer.headers["Access-Control-Allow-Private-Network"] == "true"
    assert answer.headers["Vary"] == "Origin"
    answer = await anonymous("GET", "/ping", headers={"Origin": "https://b.example"})
    assert answer.headers["Access-Control-Expose-Headers"] == "link, x-request-id"
    for origin in ("https://c.example", "null", "https://a.example.org"):
        answer = await anonymous("GET", "/ping", headers={"Origin": origin})
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert answer.headers["Vary"] == "Origin"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            {"HTTP_CORS_ALLOW_CREDENTIALS": "true", "HTTP_CORS_ALLOWED_ORIGINS": "[*]"},
            "allow_credentials cannot be combined with *",
        ),
        ({"HTTP_JWT_ENCODING_SECRET": "short"}, "encoding_secret has fewer than the 32 bytes"),
        ({"HTTP_TLS_ENABLED": "true"}, "enabled needs cert_file and key_file"),
        ({"HTTP_METRICS_ENDPOINT": "metrics"}, "endpoint is a path"),
    ],
)
def test_unsafe_settings_stop_the_start(start_server: StartServer, settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(ServerDidNotStart, match=complaint.replace("*", r"\*")):
        start_server(settings)


async def test_metrics_by_setting(start_server: StartServer, reach: Reach) -> None:
    server = start_server({"HTTP_METRICS_ENDPOINT": "/figures", "HTTP_METRICS_LOGIN_REQUIRED": "true"})
    anonymous = reach(server)
    assert (await anonymous("GET", "/figures")).status == 401
    root = await anonymous.login()
    assert (await root("GET", "/metrics")).status == 404
    assert (await root("GET", "/figures")).body.endswith(b"# EOF\n")
    guest = await root.create_user("guest")
    assert (await guest("GET", "/figures")).code == 41


def issue(authority: trustme.CA, directory: Path) -> dict[str, str]:
    certificate = authority.issue_cert("127.0.0.1")
    # Replace the key first: until the certificate is replaced the two do not match, which must do no harm.
    certificate.private_key_pem.write_to_path(str(directory / "key.pem"))
    (directory / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    return {"HTTP_TLS_CERT_FILE": str(directory / "cert.pem"), "HTTP_TLS_KEY_FILE": str(directory / "key.pem")}


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def ping(url: str, context: ssl.SSLContext) -> int:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/ping", ssl=context) as answer:
        return answer.status


async def test_https_with_certificates_that_change(start_server: StartServer, tmp_path: Path) -> None:
    old, new = trustme.CA(), trustme.CA()
    settings = {"HTTP_TLS_ENABLED": "true", "HTTP_TLS_RELOAD_INTERVAL": "100 ms"} | issue(old, tmp_path)
    url = start_server(settings).http_url.replace("http://", "https://")
    assert await ping(url, trusting(old)) == 200
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await ping(url, trusting(new))
    (tmp_path / "key.pem").write_text("not a key")
    await asyncio.sleep(0.5)
    assert await ping(url, trusting(old)) == 200
    issue(new, tmp_path)
    for _ in range(100):
        try:
            assert await ping(url, trusting(new)) == 200
            break
        except aiohttp.ClientConnectorCertificateError:
            await asyncio.sleep(0.1)
    else:
        pytest.fail("the new certificate is not served")


async def test_client_certificates(start_server: StartServer, tmp_path: Path) -> None:
    authority, clients = trustme.CA(), trustme.CA()
    clients.cert_pem.write_to_path(str(tmp_path / "clients.pem"))
    settings = {"HTTP_TLS_ENABLED": "true", "HTTP_TLS_CLIENT_CA_FILE": str(tmp_path / "clients.pem")}
    url = start_server(settings | issue(authority, tmp_path)).http_url.replace("http://", "https://")
    context = trusting(authority)
    with pytest.raises(aiohttp.ClientError):
        await ping(url, context)
    clients.issue_cert("client@example.org").configure_cert(context)
    assert await ping(url, context) == 200


async def test_what_is_in_flight_is_answered_before_the_end(start_server: StartServer, reach: Reach) -> None:
    server = start_server()
    root = await reach(server).login()
    path = (await root.create_topic("last-words")) + "/messages"
    sends = [asyncio.ensure_future(root("POST", path, batch(b"%d" % number))) for number in range(20)]
    await asyncio.sleep(0.02)
    assert await asyncio.to_thread(server.stop) == 0
    answers = await asyncio.gather(*sends, return_exceptions=True)
    sent = sum(1 for answer in answers if not isinstance(answer, BaseException) and answer.status == 201)
    server.start()
    root = await reach(server).login()
    assert len(payloads(await root.ok("GET", f"{path}?count=100"))) >= sent


async def test_requests_are_logged_on_request(start_server: StartServer, reach: Reach) -> None:
    server = start_server({"HTTP_ACCESS_LOG": "true", "SYSTEM_LOGGING_FORMAT": "json"})
    root = await reach(server).login()
    await root("GET", "/streams?limit=1", headers={"X-Request-Id": "look-for-me"})

    def lines() -> list[str]:
        return [line for line in server.log_tail().splitlines() if "look-for-me" in line]

    # The log line is written after the response.
    await asyncio.to_thread(eventually, "its line", lines)
    (line,) = lines()
    assert '"user_id": 0' in line
    assert "GET /streams 200" in line
    assert root.token is not None
    assert root.token not in server.log_tail()
