"""The service process: ``python -m headrace_metadata [--config FILE]``.

The one module of this package that knows the native one: here the two are put together.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

import headrace_core
from headrace_metadata import log_output
from headrace_metadata.app import serve
from headrace_metadata.config import PREFIX, MetadataConfig, load_config
from headrace_metadata.errors import MetadataError
from headrace_settings import SettingsError, to_markdown


def main(arguments: list[str]) -> int:
    """Run one replica until the process is asked to stop; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m headrace_metadata",
        description="Run one replica of the metadata service in the foreground.",
        epilog=f"A setting is taken from a variable ({PREFIX}_CLUSTER_NAME for cluster.name), then from the file.",
    )
    parser.add_argument("--config", type=Path, help="TOML file with settings")
    parser.add_argument("--settings", action="store_true", help="print every setting with its default and meaning")
    options = parser.parse_args(arguments)
    if options.settings:
        sys.stdout.write(to_markdown(MetadataConfig, prefix=PREFIX))
        return 0
    try:
        config = load_config(options.config, os.environ).config
        log_output.configure(config.logging, replica=config.cluster.replica)
        asyncio.run(serve(config, headrace_core.MetadataReplica))
    except SettingsError as error:
        sys.stderr.write(f"{len(error.problems)} wrong setting(s)\n{error}\n")
        return 1
    except (MetadataError, headrace_core.CoreError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
