"""Messages of ``headrace.control.v1``. Made by proto/generate.py."""

from headrace_proto.control.v1.control_pb2 import (
    CatchUp,
    ChangePassword,
    ClientGone,
    CreateAccessToken,
    CreateUser,
    GetDiagnostics,
    GetHostStatistics,
    GetTransaction,
    HostStatistics,
    LoginWithPassword,
    LoginWithToken,
    Reply,
    Request,
)

__all__ = [
    "CatchUp",
    "ChangePassword",
    "ClientGone",
    "CreateAccessToken",
    "CreateUser",
    "GetDiagnostics",
    "GetHostStatistics",
    "GetTransaction",
    "HostStatistics",
    "LoginWithPassword",
    "LoginWithToken",
    "Reply",
    "Request",
]
