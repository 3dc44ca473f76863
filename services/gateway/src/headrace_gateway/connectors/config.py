"""Settings of the process with connectors."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import model_validator

from headrace_settings import Between, Duration, Secret, Section


class ConnectorsConfig(Section):
    """`http.connectors`: a process with connectors, or several that share them, for the console and the HTTP API."""

    url: str | None = None
    """Address of its HTTP interface, such as `http://127.0.0.1:8120`; not set: there is none. Processes that share
    connectors (`sharing.group`) are all named, with commas between them: each connector is asked where it runs.
    """
    token: Secret | None = None
    """Token of that interface, the setting `http.token` of the pipeline file. Users of this server do not get it: the
    permission to read the server is needed for reading, and that to manage it for changes.
    """
    timeout: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("10 m"))] = Duration.parse("1 m")
    """Time for an answer. A change is answered when the connector has stopped, which may take as long as its commit."""

    @model_validator(mode="after")
    def _url_is_an_address(self) -> Self:
        for address in self.addresses:
            if not address.startswith(("http://", "https://")):
                raise ValueError(f"url = {address!r} is not an address such as http://127.0.0.1:8120")
        if self.url is None and self.token is not None:
            raise ValueError("token needs url")
        return self

    @property
    def addresses(self) -> tuple[str, ...]:
        """Address of each process, without a slash at its end."""
        return () if self.url is None else tuple(one.strip().rstrip("/") for one in self.url.split(","))
