"""Build hook of the distribution `headrace`: makes the calls for asyncio, and refuses a wheel without the console."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_INDEX: Final = "services/gateway/src/headrace_gateway/console/static/index.html"
_CALLS: Final = "client/generate_aio.py"


class BuildHook(BuildHookInterface[Any]):
    """Makes what git does not have, and refuses a wheel without the console, which is built from `web/console` before.

    A server without the console would answer browsers with a line of plain text.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the interface is the builder's
        """Make the calls for asyncio, and check that the console has been built.

        Args:
            version: `standard`, or `editable` for an installation that finds the console in the checkout later.
            build_data: Not used.

        Raises:
            FileNotFoundError: The console has not been built.
        """
        if version != "editable" and not Path(self.root, _INDEX).is_file():
            raise FileNotFoundError(
                f"the console is not built, there is no {_INDEX}: run `make setup`, then build again"
            )
        subprocess.run([sys.executable, Path(self.root, _CALLS)], check=True)  # noqa: S603 - it is ours
