"""Configuration common to all jobs, and to all streaming jobs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Self

from pyspark_headrace.jobs.running.arguments import ArgumentError, argument
from pyspark_headrace.jobs.uris import uri
from pyspark_headrace.options.values import Unsuitable, addresses, integer, milliseconds, size

LEVELS: Final = ("info", "warning", "error")
"""Levels of findings, in ascending order of severity."""

_LISTEN: Final = re.compile(r"(?:(\[[0-9a-fA-F:.%]+\]|[^\s:/\[\]]*):)?(\d{1,5})")
_LOOPBACK: Final = "127.0.0.1"


def _servers(text: str) -> str:
    return ",".join(addresses(text))


def listening(text: str) -> tuple[str, int]:
    """Parse the host and port to listen on. The default host is loopback; port 0 selects a free port."""
    found = _LISTEN.fullmatch(text.strip())
    if found is None or int(found[2]) > 65535:
        raise Unsuitable("host:port, or a port of 127.0.0.1")
    return (found[1] or _LOOPBACK).strip("[]"), int(found[2])


@dataclass(frozen=True)
class Trigger:
    """Trigger of a streaming query."""

    interval_ms: int | None = None
    """Milliseconds between the starts of two micro-batches."""
    is_continuous: bool = False
    """Start a micro-batch as soon as messages are available, until the job is stopped."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse ``available-now``, ``interval:30s`` or ``continuous-default``."""
        match text.strip().partition(":"):
            case ("available-now", "", ""):
                return cls()
            case ("continuous-default", "", ""):
                return cls(is_continuous=True)
            case ("interval", ":", duration):
                return cls(interval_ms=milliseconds(1)(duration))
            case _:
                raise Unsuitable("available-now, continuous-default, or like interval:30s")

    @property
    def ends(self) -> bool:
        """Return whether the query ends by itself, after the messages available at its start."""
        return self.interval_ms is None and not self.is_continuous

    def arguments(self) -> dict[str, Any]:
        """Arguments for ``DataStreamWriter.trigger``; empty if the method must not be called."""
        if self.interval_ms is not None:
            return {"processingTime": f"{self.interval_ms} milliseconds"}
        return {} if self.is_continuous else {"availableNow": True}

    def __str__(self) -> str:
        if self.interval_ms is not None:
            return f"interval:{self.interval_ms}ms"
        return "continuous-default" if self.is_continuous else "available-now"


@dataclass(frozen=True, kw_only=True)
class JobConfig:
    """Servers, credentials and reporting of a job."""

    needs_servers: ClassVar[bool] = True
    """True if the job always needs servers and a stream. A job that sometimes needs them checks in its `checked`."""

    servers: str = argument(
        parse=_servers,
        default="",
        metavar="HOST:PORT,...",
        help="gRPC addresses of gateways; the first one that responds is used",
    )
    token_file: str | None = argument(metavar="FILE", help="file with the access token to log in with")
    token_env: str | None = argument(
        metavar="VARIABLE", help="environment variable with the access token to log in with"
    )
    username: str | None = argument(
        metavar="NAME", help="user to log in as with a password, in place of an access token"
    )
    password_file: str | None = argument(metavar="FILE", help="file with the user's password")
    password_env: str | None = argument(metavar="VARIABLE", help="environment variable with the user's password")
    tls: bool = argument(default=False, help="encrypt connections; implied by certificates, unless --tls-nodes is true")
    tls_nodes: str | None = argument(
        choices=("true", "false"),
        help="whether connections to partition nodes are encrypted, if it differs from the gateways",
    )
    tls_ca: str | None = argument(metavar="FILE", help="certificate authorities (PEM) that verify the servers")
    tls_certificate: str | None = argument(metavar="FILE", help="client certificate (PEM)")
    tls_key: str | None = argument(metavar="FILE", help="private key (PEM) of the client certificate")
    tls_server_name: str | None = argument(metavar="NAME", help="name expected in the certificates of the servers")
    stream: str = argument(default="", metavar="NAME", help="name of the stream")
    name: str = argument(
        default="",
        metavar="NAME",
        help="name of this use of the job; identifies its state on the servers, its report and its metrics",
    )
    report: str | None = argument(metavar="FILE", help="file to write the report to, in addition to standard output")
    metrics_listen: tuple[str, int] | None = argument(
        parse=listening,
        metavar="HOST:PORT",
        help="address to serve Prometheus metrics on; the host defaults to 127.0.0.1",
    )
    dry_run: bool = argument(default=False, help="print what the job would do, without changing anything")
    fail_on: str = argument(
        default="error",
        choices=(*LEVELS, "never"),
        help="lowest level of finding that makes the job exit with status 3",
    )
    log_level: Literal["debug", "info", "warning", "error"] = argument(
        default="info", choices=("debug", *LEVELS), help="lowest level of log lines on standard error"
    )

    def checked(self) -> Self:
        """Validate combinations of arguments.

        Raises:
            ArgumentError: Arguments contradict each other, or one is missing.
        """
        if self.needs_servers:
            self.require("servers", "stream")
        if sum(way is not None for way in (self.token_file, self.token_env, self.username)) > 1:
            raise ArgumentError("of --token-file, --token-env and --username only one is possible")
        passwords = sum(way is not None for way in (self.password_file, self.password_env))
        if passwords != (1 if self.username is not None else 0):
            raise ArgumentError("--username needs --password-file or --password-env, and those need --username")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ArgumentError("--tls-certificate and --tls-key belong together")
        if self.tls_server_name is not None and not (self._uses_tls or self.tls_nodes == "true"):
            raise ArgumentError("--tls-server-name needs --tls, --tls-nodes true or --tls-ca")
        return self

    def require(self, *names: str) -> None:
        """Check that fields are set.

        Raises:
            ArgumentError: A field is empty.
        """
        for name in names:
            if getattr(self, name) in {None, "", ()}:
                raise ArgumentError(f"--{name.replace('_', '-')} is required")

    def source_options(self) -> dict[str, str]:
        """Options of the data source for reading and writing: servers, stream, credentials, encryption.

        Raises:
            ArgumentError: Servers or stream are missing.
        """
        self.require("servers", "stream")
        given = {
            "servers": self.servers,
            "stream": self.stream,
            "tokenFile": self.token_file,
            "tokenEnv": self.token_env,
            "username": self.username,
            "passwordFile": self.password_file,
            "passwordEnv": self.password_env,
            "tls.enabled": str(self._uses_tls).lower() if self._uses_tls or self.tls_nodes else None,
            "tls.nodes": self.tls_nodes,
            "tls.ca": self.tls_ca,
            "tls.certificate": self.tls_certificate,
            "tls.key": self.tls_key,
            "tls.serverName": self.tls_server_name,
        }
        return {option: value for option, value in given.items() if value is not None}

    @property
    def _uses_tls(self) -> bool:
        """Return whether connections to gateways are encrypted.

        Certificate options imply encryption, unless TLS is enabled for nodes only.
        """
        has_certificates = self.tls_ca is not None or self.tls_certificate is not None
        return self.tls or (has_certificates and self.tls_nodes != "true")


@dataclass(frozen=True, kw_only=True)
class StreamJobConfig(JobConfig):
    """Configuration of a streaming job: checkpoint, trigger and limits of a micro-batch."""

    checkpoint: str = argument(
        parse=uri,
        default="",
        metavar="URI",
        help="directory of the Spark checkpoint with the job's progress; each use of a job needs its own",
    )
    trigger: Trigger = argument(
        parse=Trigger.of,
        default=Trigger(),
        metavar="WHEN",
        help="when micro-batches run; available-now: process existing messages, then exit; interval:30s: at this "
        "interval; continuous-default: as soon as messages arrive",
    )
    max_offsets_per_trigger: int | None = argument(
        parse=integer(1), metavar="COUNT", help="maximum number of messages in a micro-batch"
    )
    max_bytes_per_trigger: int | None = argument(
        parse=size(1), metavar="SIZE", help="approximate maximum size of a micro-batch, such as 512m"
    )

    def checked(self) -> Self:
        """Validate combinations of arguments. A checkpoint is required except for a dry run."""
        if self.goes_on and not self.dry_run:
            self.require("checkpoint")
        return super().checked()

    @property
    def goes_on(self) -> bool:
        """Return whether a later run continues from this one, which requires a checkpoint."""
        return True

    def stream_options(self) -> dict[str, str]:
        """Options of the data source for ``readStream``: `source_options`, and the limits of a micro-batch."""
        given = {
            "readerId": self.name or None,
            "maxOffsetsPerTrigger": self.max_offsets_per_trigger,
            "maxBytesPerTrigger": self.max_bytes_per_trigger,
        }
        return self.source_options() | {option: str(value) for option, value in given.items() if value is not None}

    def sink_options(self, *topics: str) -> dict[str, str]:
        """Options of the data source for ``writeStream``: exactly once, with the job name as transactional id.

        Args:
            topics: One topic, or several that a column selects from.
        """
        where = {"topic": topics[0]} if len(topics) == 1 else {"topics": ",".join(topics)}
        return self.source_options() | where | ({"transactionalId": self.name} if self.name else {})
