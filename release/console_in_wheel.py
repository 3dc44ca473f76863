"""Build hook of the distribution `headrace`: a wheel has the console, which is built from `web/console` before it."""

from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_INDEX: Final = "services/gateway/src/headrace_gateway/console/static/index.html"


class ConsoleInWheel(BuildHookInterface[Any]):
    """Refuses to build a wheel without the console: its server would answer browsers with a line of plain text."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the interface is the builder's
        """Check that the console has been built.

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
