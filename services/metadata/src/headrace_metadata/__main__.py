"""The service process: ``python -m headrace_metadata [--config FILE]``.

The only module of this package that imports the native one; it wires them together.
"""

from __future__ import annotations

import sys

import headrace_core
from headrace_chassis import log_output
from headrace_chassis.process import ServiceProcess
from headrace_metadata.app import RunningService, running
from headrace_metadata.config import PREFIX, MetadataConfig, load_config
from headrace_metadata.errors import MetadataError

PROCESS = ServiceProcess(
    package="headrace_metadata",
    description="Run one replica of the metadata service in the foreground.",
    prefix=PREFIX,
    model=MetadataConfig,
    load=load_config,
    configure_log=lambda config: log_output.configure(config.logging, replica=config.cluster.replica),
    running=lambda loaded: running(loaded.config, headrace_core.MetadataReplica),
    on_started=RunningService.log_addresses,
    refusals=(MetadataError, headrace_core.CoreError),
)

if __name__ == "__main__":
    sys.exit(PROCESS.main(sys.argv[1:]))
