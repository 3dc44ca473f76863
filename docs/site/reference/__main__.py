"""Write the pages of the site that are made of the product: `python docs/site/reference DIRECTORY`.

The build of the site runs it. The directory gets the pages at their places on the site.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import command_line
import connector_pages
import generate_commands
import grpc_services
import http_operations
import metrics_page
import requirements
import status_codes
from running_server import running_server

COMMANDS: Final = Path(__file__).resolve().parents[3] / "proto" / "commands.toml"


def pages() -> dict[str, str]:
    """Return all pages by their places on the site."""
    with running_server() as server:
        observed = {
            "reference/http.md": http_operations.render(server.openapi),
            "reference/metrics.md": metrics_page.render(server),
        }
    return (
        observed
        | {f"connectors/{name}": text for name, text in connector_pages.pages().items()}
        | {
            "commands.md": generate_commands.document(generate_commands.read_registry(COMMANDS)),
            "reference/command-line.md": command_line.render(),
            "reference/grpc.md": grpc_services.render(),
            "reference/status-codes.md": status_codes.render(),
            "requirements.md": requirements.render(),
        }
    )


def main(directory: Path) -> None:
    """Write all pages."""
    for place, text in pages().items():
        path = directory / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
