"""URLs with bytes that are not UTF-8."""

import asyncio
import json
import logging

import pytest
from aiohttp import web
from aiohttp.http_parser import HttpRequestParserPy


async def answered(runner, request_line):
    host, port = runner.addresses[0]
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request_line + b" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 1\r\nConnection: close\r\n\r\n")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize(
    ("request_line", "code", "field"),
    [
        (b"GET /streams/\xff", "invalid_identifier", "stream_id"),
        (b"GET /streams/1/topics/\xff?sizes=bytes", "invalid_identifier", "topic_id"),
        (b"DELETE /personal-access-tokens/\xff", "invalid_identifier", "name"),
        (b"GET /connectors/\xff", "invalid_identifier", "key"),
        (b"POST /connectors/\xff/restart", "invalid_identifier", "key"),
        (b"GET /streams/1/topics/1/messages?consumer_id=\xff", "invalid_identifier", "consumer_id"),
        (b"GET /streams?sizes=bytes&\xff=1", "bad_request", None),
    ],
)
async def test_urls_that_are_not_utf8(
    application, connectors, sessions, monkeypatch, caplog, request_line, code, field
):
    """Regression: such bytes were answered with 500, and a traceback in the log.

    The parser without native code passes them on as surrogates; the other one refuses them.
    """
    monkeypatch.setattr("aiohttp.web_protocol.HttpRequestParser", HttpRequestParserPy)
    sessions.gate.set()
    runner = web.AppRunner(application.build())
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with connectors.connected():
            status, body = await answered(runner, request_line)
    finally:
        await runner.cleanup()
    assert (status, body["code"], body["field"]) == (400, code, field)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
