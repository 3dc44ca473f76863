"""Sources that receive requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

from tests.performance.cases.connectors.runs import ONE_BY_ONE, Measurements, row
from tests.ports import free_port

_WEBHOOK: Final = "source webhook"
_INFLUXDB: Final = "source influxdb"
_SIZES: Final = (1, 100, 1000)
"""Records of a request."""
_REQUESTS_MIN: Final = 64


class Endpoints(Measurements):
    """Requests of 64 callers, each of which waits for its answer before it sends the next one."""

    def turns(self) -> Mapping[str, Callable[[], Mapping[str, float]]]:
        """Return the measurements."""
        found: dict[str, Callable[[], Mapping[str, float]]] = {}
        for plugin, bodies in ((_WEBHOOK, _records), (_INFLUXDB, _points)):
            for size in _SIZES:
                found[_name(plugin, size)] = partial(self._called, _name(plugin, size), plugin, bodies, size)
            alone = _name(plugin, 1) + ONE_BY_ONE
            found[alone] = partial(self._called, alone, plugin, bodies, 1, one_by_one=True)
        return found

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Set up nothing: callers and sources find each other by the port."""
        yield

    def _called(
        self,
        name: str,
        plugin: str,
        body_of: Callable[[int], tuple[str, bytes]],
        size: int,
        *,
        one_by_one: bool = False,
    ) -> Mapping[str, float]:
        # A request of one record costs as much as many records do.
        wanted = self.runs.rows // 5 if size == 1 else self.runs.rows // size
        requests = max(_REQUESTS_MIN, wanted)
        address = f"127.0.0.1:{free_port()}"
        target, body = body_of(size)
        head = f"POST {target} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {len(body)}\r\n"
        request = f"{head}Content-Type: application/json\r\n\r\n".encode() + body
        settings = f'address = "{address}"\nmax_body = "16 MiB"\nmax_waiting = "1 GiB"\n'
        rate = self.runs.endpoint(
            plugin.removeprefix("source "), settings, request, requests, requests * size, one_by_one=one_by_one
        )
        if size == 1:
            return {name: rate}
        return {name: rate * size, f"{name}: requests": rate}


def _name(plugin: str, size: int) -> str:
    return f"{plugin}, {size} in a request"


def _records(size: int) -> tuple[str, bytes]:
    rows = [row(number) for number in range(size)]
    return "/", json.dumps(rows if size > 1 else rows[0]).encode()


def _points(size: int) -> tuple[str, bytes]:
    lines = (f'orders,topic=t name="customer {number:032}",amount={number}i {number}\n' for number in range(size))
    return "/write?db=bench", "".join(lines).encode()
