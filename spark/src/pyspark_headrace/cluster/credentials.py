"""Access tokens. Each process reads them where it needs them; they are never part of options or tasks."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import grpc

from headrace_proto.gateway import v1
from headrace_proto.gateway.v1.login_pb2_grpc import LoginStub
from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.connection import ConnectionOptions

_CALL_SECONDS: Final = 30.0
_EARLIER_SECONDS: Final = 30.0
"""Time before the expiry of a token at which the login is renewed."""

_logins: dict[tuple[int, str, tuple[str, ...]], tuple[str, float]] = {}
"""Tokens of logins and their expiry, by process, user and servers. Cached because a login is expensive for the server.
"""


def are_here(options: ConnectionOptions) -> bool:
    """Return whether this process has credentials for gateways. Executors do not need any."""
    try:
        return _given(options) is not None
    except OptionError:
        return False


def bearer(options: ConnectionOptions, channel: grpc.Channel, *, renewed: bool = False) -> str:
    """Return the token for calls to a gateway.

    Args:
        options: Location of the token, or user name and password to log in with.
        channel: Gateway for a login, if one is needed.
        renewed: The last token was rejected.

    Raises:
        OptionError: This process has no credentials.
        grpc.RpcError: The login has failed.
    """
    given = _given(options)
    if given is None:
        raise OptionError("no credentials: gateways need tokenFile, tokenEnv or username")
    if options.username is None:
        return given
    key = (os.getpid(), options.username, options.servers)
    token, ends = _logins.get(key, ("", 0.0))
    if renewed or time.time() > ends - _EARLIER_SECONDS:
        login = LoginStub(channel).Login(
            v1.LoginRequest(username=options.username, password=given), timeout=_CALL_SECONDS
        )
        token = login.token
        _logins[key] = (token, login.expires_at_micros / 1_000_000)
    return token


def _given(options: ConnectionOptions) -> str | None:
    if options.username is not None:
        return _secret("password", options.password_file, options.password_env)
    if options.token_file is None and options.token_env is None:
        return None
    return _secret("token", options.token_file, options.token_env)


def _secret(kind: str, path: str | None, variable: str | None) -> str:
    if path is not None:
        try:
            found = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"option {kind}File: {path} cannot be read: {error}") from error
        if not found:
            raise OptionError(f"option {kind}File: {path} is empty")
        return found
    found = os.environ.get(variable or "", "")
    if not found:
        raise OptionError(f"option {kind}Env: the environment variable {variable} is not set where this runs")
    return found
