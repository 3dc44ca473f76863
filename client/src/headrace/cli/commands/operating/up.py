"""`headrace up`."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol, get_args

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headrace.cli import output
from headrace.cli.commands.operating.config import config_option
from headrace.cli.errors import CommandError
from headrace.cli.parameters import WholeNumber
from headrace.cli.providers import provided
from headrace_chassis import log_output
from headrace_chassis.process import RunningService, serve
from headrace_core import StartError
from headrace_embedded import EmbeddedError, Recovery, Running, running
from headrace_embedded.config import PREFIX, EmbeddedConfig, load_config
from headrace_embedded.root_user import RootCredentials
from headrace_node.config import Durability
from headrace_settings import Address, DefaultOrigin, Loaded, settings_of

# Of the system, and of the gRPC library.
_TAKEN: Final = ("Address already in use", "Failed to bind to address")
_PORT_MAX: Final = 65535


class Connectors(Protocol):
    """Connectors in the process of the server, which their package brings as the entry point `up.connectors`."""

    def settings_of(self, loaded: Loaded[EmbeddedConfig]) -> dict[str, str]:
        """Return settings of the server by which it shows them, by dotted name, unless others are configured."""

    def beside(
        self, starting: AbstractAsyncContextManager[Running], on_server: Callable[[Running], object]
    ) -> AbstractAsyncContextManager[RunningService]:
        """Run the server with them for the duration of an ``async with`` block; they start after it and stop first.

        Args:
            starting: Starts the server.
            on_server: Called when the server has started, before they start.

        Raises:
            CommandError: They cannot start.
        """


@click.command("up")
@config_option
@click.option("--data", "-d", type=click.Path(path_type=Path), help="Data directory. [setting: system.path]")
@click.option(
    "--address", "-a", metavar="IP:PORT", help="Address that the TCP listener binds to. [setting: tcp.address]"
)
@click.option(
    "--port",
    "-p",
    type=WholeNumber(0, 65535),
    help="Port of the TCP listener, keeping the configured host. All listeners without a configured address move by "
    "the same distance; 0 picks free ports.",
)
@click.option("--driver", help="I/O driver: auto, uring or poll. [setting: runtime.driver]")
@click.option(
    "--durability",
    help=f"Durability of acknowledged appends: {', '.join(get_args(Durability))}. [setting: durability]",
)
@click.option("--fresh", is_flag=True, help="Delete everything in the data directory first.")
@click.option(
    "--with-default-root-credentials",
    "default_root",
    is_flag=True,
    help="Name the new root user iggy, with the password iggy; only applies to an empty data directory.",
)
@click.option(
    "--connectors",
    "pipeline_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Run the connectors of this pipeline file in the same process: `headrace connect`. Without server.url they "
    "use this server.",
)
def app(
    file: Path | None,
    data: Path | None,
    address: str | None,
    port: int | None,
    driver: str | None,
    durability: str | None,
    fresh: bool,
    default_root: bool,
    pipeline_file: Path | None,
) -> None:
    """Run the server in the foreground. Ctrl-C shuts it down gracefully; a second Ctrl-C forces the exit."""
    chosen = {
        "system.path": ("--data", str(data) if data else None),
        "tcp.address": ("--address", address),
        "runtime.driver": ("--driver", driver),
        "durability": ("--durability", durability),
    }
    options = {setting: (option, text) for setting, (option, text) in chosen.items() if text is not None}
    loaded = load_config(file, os.environ, options)
    if port is not None:
        options.update({setting: ("--port", address) for setting, address in moved(loaded, port).items()})
        loaded = load_config(file, os.environ, options)
    # Before anything starts: a mistake in the file must not leave a server behind that has to be stopped.
    connectors: Connectors | None = None
    if pipeline_file is not None:
        connectors = provided("up.connectors", "headrace up --connectors")(pipeline_file)
        if shown := connectors.settings_of(loaded):
            options.update({setting: ("--connectors", text) for setting, text in shown.items()})
            loaded = load_config(file, os.environ, options)
    log_output.configure(loaded.config.system.logging)
    try:
        asyncio.run(_serve(loaded, connectors, fresh=fresh, default_root=default_root))
    except (EmbeddedError, StartError) as error:
        if isinstance(error.__cause__, OSError):
            path = loaded.config.system.path
            reason = error.__cause__.strerror or error.__cause__
            raise CommandError(
                f"system.path = {path}: the directory cannot be used ({reason}); choose another one with --data"
            ) from error
        taken = _taken(loaded, str(error))
        if taken is None:
            raise
        setting, address = taken
        raise CommandError(
            f"{setting} = {address}: another program listens there, or this machine does not have the address "
            f"(`headrace doctor` checks ports); stop it, set {_variable(setting)} to another address, or move all "
            "listeners with --port"
        ) from error


def moved(loaded: Loaded[EmbeddedConfig], port: int) -> dict[str, str]:
    """Return the addresses of the TCP listener with another port, and of the listeners that move along with it.

    Raises:
        click.UsageError: A port would be too large.
    """
    distance = port - EmbeddedConfig().tcp.address.port
    moved = {"tcp.address": str(loaded.config.tcp.address.with_port(port))}
    for path, address in _listeners(loaded.config):
        setting = ".".join(path)
        if setting in moved or not isinstance(loaded.origin(path), DefaultOrigin):
            continue
        other = address.port + distance if port else 0
        if not 0 <= other <= _PORT_MAX:
            raise click.UsageError(f"--port {port}: {setting} would get port {other}: set {_variable(setting)}")
        moved[setting] = str(address.with_port(other))
    return moved


def _listeners(config: EmbeddedConfig) -> Iterator[tuple[tuple[str, ...], Address]]:
    """Return the settings with the addresses of listeners, and their values."""
    for setting in settings_of(EmbeddedConfig):
        if setting.path[-1] == "address":
            value: Any = config
            for name in setting.path:
                value = getattr(value, name)
            yield setting.path, value


def _taken(loaded: Loaded[EmbeddedConfig], message: str) -> tuple[str, str] | None:
    """Return the setting whose address cannot be listened on, and the address, for the message of any listener."""
    if not any(words in message for words in _TAKEN):
        return None
    for path, address in _listeners(loaded.config):
        if re.search(rf"(?<![0-9]){re.escape(str(address))}(?![0-9])", message):
            return ".".join(path), str(address)
    return None


def _variable(setting: str) -> str:
    return f"{PREFIX}_{setting.replace('.', '_').upper()}"


async def _serve(
    loaded: Loaded[EmbeddedConfig], connectors: Connectors | None, *, fresh: bool, default_root: bool
) -> None:
    began = time.perf_counter()
    with _shown_in_any_case() as unseen, ExitStack() as stack:
        progress = stack.enter_context(_recovery_progress())
        task = progress.add_task("recovering partitions", total=None)

        def on_recovery(recovery: Recovery) -> None:
            # Partitions are counted when their recovery has begun.
            recovered = max(0, recovery.partitions_count - recovery.recovering_count)
            progress.update(task, total=recovery.partitions_count, completed=recovered)

        def on_started(server: Running) -> None:
            stack.close()
            _print_banner(server, seconds=time.perf_counter() - began, default_root=default_root)
            unseen.clear()

        starting = running(
            loaded,
            fresh=fresh,
            default_root_credentials=default_root,
            on_recovery=on_recovery,
            on_root=unseen.append,
        )
        if connectors is None:
            await serve(starting, on_started=on_started, on_stopping=_print_stopping)
        else:
            # Before they start: the banner may show a password once, whatever becomes of the connectors.
            both = connectors.beside(starting, on_started)
            await serve(both, on_started=lambda _: None, on_stopping=_print_stopping)
    output.stdout().print("stopped")


@contextmanager
def _shown_in_any_case() -> Iterator[list[RootCredentials]]:
    """Yield a list for the credentials of a new root user; those in it at the end are printed.

    The user outlives a start that fails or is interrupted before the banner, and no later start has a generated
    password.
    """
    unseen: list[RootCredentials] = []
    try:
        yield unseen
    finally:
        for root in unseen:
            _print_root(root)


def _print_stopping() -> None:
    output.stdout().print("stopping: answering what is in flight (Ctrl-C again to force)")


def _recovery_progress() -> Progress:
    console = output.stderr()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _address(bound: str, *, is_tls: bool = False) -> str:
    if not bound:
        return "not listening"
    return f"{bound} (TLS)" if is_tls else bound


def _print_banner(server: Running, *, seconds: float, default_root: bool) -> None:
    console = output.stdout()
    driver = server.driver + (f" ({server.driver_reason})" if server.driver_reason else "")
    console.print(f"[bold]headrace {server.version}[/] is up after {seconds:.2f} s")
    rows = [
        ("tcp", _address(server.tcp_address, is_tls=server.config.tcp.tls.enabled)),
        ("http", server.http_url or "not listening"),
        *((("console", f"{server.http_url}/"),) if server.http_url and server.config.http.console.enabled else ()),
        ("grpc", server.grpc_address or "not listening"),
        ("pipelines", _address(server.pipelines_address, is_tls=server.config.pipelines.tls.files is not None)),
        ("websocket", _address(server.websocket_address, is_tls=server.config.websocket.tls.enabled)),
        ("quic", _address(server.quic_address)),
        ("data", str(server.data_path)),
        ("driver", driver),
        ("shards", str(server.shards_count)),
        ("durability", server.config.durability),
        ("process", str(os.getpid())),
    ]
    for name, value in rows:
        console.print(f"  {name:<12}{value}", markup=False)
    for partition, reason in server.failures:
        console.print(f"  partition {partition} is closed: {reason}", markup=False, style="bold red")
    if server.root is not None:
        _print_root(server.root)
    if server.root is None and default_root:
        console.print(
            "  root user   already exists; its password is unchanged. --with-default-root-credentials only applies to "
            "an empty data directory (use --fresh, or another --data)",
            markup=False,
            style="yellow",
        )
    console.print("Press Ctrl-C to stop.", style="dim")


def _print_root(root: RootCredentials) -> None:
    """Print the name of a new root user, and the password that was made for it."""
    console = output.stdout()
    console.print(f"  root user   {root.username}", markup=False)
    if root.generated:
        console.print(f"  password    {root.password.reveal()}   (shown this once)", markup=False, style="bold")
