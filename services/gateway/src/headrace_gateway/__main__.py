"""The service process: ``python -m headrace_gateway [--config FILE]``.

The only module of this package that depends on both the native node and the service; it wires them together.
"""

from __future__ import annotations

import sys

import headrace_core
from headrace_chassis import log_output
from headrace_chassis.process import ServiceProcess
from headrace_gateway.access.root_user import RootUserError
from headrace_gateway.ports import NoAnswer
from headrace_gateway.service.app import NativeFactory, RunningGateway, running
from headrace_gateway.service.config import PREFIX, GatewayServiceConfig, load_config
from headrace_gateway.service.remote_metadata import CommandFailed
from headrace_metadata_client import MetadataClientError
from headrace_node import NodeError

_NATIVE_FACTORY = NativeFactory(node=headrace_core.Node, edge=headrace_core.Edge)


PROCESS = ServiceProcess(
    package="headrace_gateway",
    description="Run one gateway of a cluster in the foreground.",
    prefix=PREFIX,
    model=GatewayServiceConfig,
    load=load_config,
    configure_log=lambda config: log_output.configure(config.logging, gateway=config.gateway.known_as),
    running=lambda loaded: running(loaded, _NATIVE_FACTORY),
    on_started=RunningGateway.log_addresses,
    refusals=(NodeError, MetadataClientError, NoAnswer, CommandFailed, RootUserError, headrace_core.CoreError),
)

if __name__ == "__main__":
    sys.exit(PROCESS.main(sys.argv[1:]))
