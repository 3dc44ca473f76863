"""The server's settings."""

from __future__ import annotations

from headrace_gateway.http.call import Call
from headrace_gateway.http.models.logs import SettingAnswer
from headrace_gateway.http.routes import Nothing, Routes

routes = Routes()


@routes.add("GET", "/settings", tag="system", answer=list[SettingAnswer], errors=(403,), has_etag=True)
async def get_settings(call: Call[Nothing, Nothing]) -> list[SettingAnswer]:
    """The effective settings with their source and meaning, without secrets.

    Needs the permission to read the server.
    """
    await call.may_read_server()
    return [SettingAnswer.of(setting) for setting in call.services.settings()]
