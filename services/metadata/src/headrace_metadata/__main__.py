"""The service process: ``python -m headrace_metadata [--config FILE]``.

The only module of this package that imports the native one; it wires them together.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Any

import headrace_core
from headrace_metadata.app import serve
from headrace_metadata.config import PREFIX, MetadataConfig, load_config
from headrace_metadata.errors import MetadataError
from headrace_settings import Loaded
from headrace_settings.process import log_output
from headrace_settings.process.service_process import ServiceProcess


def _serve(loaded: Loaded[MetadataConfig]) -> Coroutine[Any, Any, None]:
    config = loaded.config
    log_output.configure(config.logging, replica=config.cluster.replica)
    return serve(config, headrace_core.MetadataReplica)


PROCESS = ServiceProcess(
    package="headrace_metadata",
    description="Run one replica of the metadata service in the foreground.",
    prefix=PREFIX,
    model=MetadataConfig,
    load=load_config,
    serve=_serve,
    refusals=(MetadataError, headrace_core.CoreError),
)

if __name__ == "__main__":
    sys.exit(PROCESS.main(sys.argv[1:]))
