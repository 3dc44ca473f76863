"""Write the reference of the site, `docs/reference`: see `--help`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import checked_in
import command_line
import connector_pages
import generate_commands
import grpc_services
import http_operations
import metrics_page
import service_settings
import status_codes
from running_server import running_server

DOCUMENTS: Final = Path(__file__).resolve().parents[2]
PAGES: Final = DOCUMENTS / "reference"
COMMANDS: Final = DOCUMENTS.parent / "proto" / "commands.toml"


def pages() -> dict[str, str]:
    """Return all pages by the names of their files."""
    with running_server() as server:
        observed = {
            "http.md": http_operations.render(server.openapi),
            "metrics.md": metrics_page.render(server),
        }
    return (
        observed
        | service_settings.pages()
        | {
            "command-line.md": command_line.render(),
            "grpc.md": grpc_services.render(),
            "status-codes.md": status_codes.render(),
        }
    )


def main(arguments: list[str]) -> int:
    """Run the command and return its exit status."""
    return checked_in.update(
        arguments,
        description="Generate docs/reference and docs/connectors from commands, registries, plugins and descriptions.",
        generator="../docs/site/reference",
        contents={PAGES / name: text for name, text in pages().items()}
        | {DOCUMENTS / "commands.md": generate_commands.document(generate_commands.read_registry(COMMANDS))}
        | {DOCUMENTS / "connectors" / name: text for name, text in connector_pages.pages().items()},
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
