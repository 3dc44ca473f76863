"""Deployment under test, known only by its addresses and the credentials of root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.server_process import PASSWORD, USERNAME, ServerProcess

GATEWAYS = "JOURNEY_GATEWAYS"
"""Variable: gateways, separated by `;`, each as `tcp=host:port,websocket=host:port,http=host:port,grpc=host:port`."""
ROOT_USERNAME, ROOT_PASSWORD = "JOURNEY_USERNAME", "JOURNEY_PASSWORD"
"""Variables: root's credentials; without them those of the servers that tests start."""
RESTART = "JOURNEY_RESTART"
"""Variable: a command that restarts all there is, and ends when it answers again."""

_RESTART_SECONDS_MAX = 300.0


@dataclass(frozen=True, slots=True)
class Gateway:
    """One gateway: `host:port` of each listener."""

    tcp: str
    websocket: str
    http: str
    grpc: str

    @classmethod
    def of(cls, server: ServerProcess) -> Gateway:
        """Listeners of an embedded server."""
        return cls(server.address, server.websocket_address, server.http_address, server.grpc_address)

    @classmethod
    def parse(cls, text: str) -> Gateway:
        """Parse the form of the variable."""
        return cls(**dict(api.strip().split("=", 1) for api in text.split(",")))


@dataclass(frozen=True, slots=True)
class Account:
    """Credentials of a user for any API."""

    username: str
    password: str


ROOT = Account(USERNAME, PASSWORD)


@dataclass(frozen=True, slots=True)
class Place:
    """Gateways of one deployment of any kind."""

    gateways: Sequence[Gateway]
    restart: Callable[[], object] | None
    """Restart all services and wait until they answer; `None` where that is not possible."""
    root: Account = ROOT
    logs: Callable[[], Mapping[str, str]] = dict
    """The last log lines of each process, by its name."""

    @property
    def here(self) -> Gateway:
        """The first gateway."""
        return self.gateways[0]

    @property
    def there(self) -> Gateway:
        """Another one, where there is one."""
        return self.gateways[-1]


def given(variables: Mapping[str, str] = os.environ) -> Place | None:
    """Read the deployment from the variables, if they are set."""
    gateways = variables.get(GATEWAYS)
    if not gateways:
        return None
    root = Account(variables.get(ROOT_USERNAME, USERNAME), variables.get(ROOT_PASSWORD, PASSWORD))
    command = variables.get(RESTART)
    return Place([Gateway.parse(text) for text in gateways.split(";")], _running(command) if command else None, root)


def _running(command: str) -> Callable[[], None]:
    def restart() -> None:
        subprocess.run(command, shell=True, check=True, timeout=_RESTART_SECONDS_MAX)

    return restart
