"""The service process: ``python -m headrace_gateway [--config FILE]``.

The only module of this package that depends on both the native node and the service; it wires them together.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Coroutine
from typing import Any

import headrace_core
from headrace_gateway.access.root_user import RootUserError
from headrace_gateway.grpc.server import ListenError
from headrace_gateway.http.server import HttpStartError
from headrace_gateway.observability.correlation import Correlation
from headrace_gateway.ports import NoAnswer
from headrace_gateway.service.app import Natives, serve
from headrace_gateway.service.config import PREFIX, GatewayServiceConfig, load_config
from headrace_gateway.service.remote_metadata import CommandFailed
from headrace_metadata_client import MetadataClientError
from headrace_node import NodeError
from headrace_node.grpc.certificates import CertificateError
from headrace_settings import Loaded
from headrace_settings.process import log_output
from headrace_settings.process.service_process import ServiceProcess

_REFUSALS = (
    NodeError,
    MetadataClientError,
    NoAnswer,
    CommandFailed,
    RootUserError,
    ListenError,
    HttpStartError,
    CertificateError,
    headrace_core.CoreError,
    OSError,
)


def _serve(loaded: Loaded[GatewayServiceConfig]) -> Coroutine[Any, Any, None]:
    log_output.configure(loaded.config.logging, gateway=loaded.config.gateway.known_as)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Correlation())
    return serve(loaded, Natives(node=headrace_core.Node, edge=headrace_core.Edge))


PROCESS = ServiceProcess(
    package="headrace_gateway",
    description="Run one gateway of a cluster in the foreground.",
    prefix=PREFIX,
    model=GatewayServiceConfig,
    load=load_config,
    serve=_serve,
    refusals=_REFUSALS,
)

if __name__ == "__main__":
    sys.exit(PROCESS.main(sys.argv[1:]))
