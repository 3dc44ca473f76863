"""One connector under load, in a process of its own: `python -m tests.performance.loads.connector_load`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.aio.direct import DirectProducer
from headrace.sdk.errors import HeadraceError
from headrace_connectors.app import running
from headrace_connectors.pipeline_file.pipeline import read_pipeline
from headrace_connectors.plugins.discovery import Plugins
from headrace_connectors.runtime.sink_connector import SinkConnector
from headrace_connectors.runtime.source_connector import SourceConnector
from tests.performance.loads.client_process import Clock

_LOOK_SECONDS = 0.002


async def _one_by_one(producer: DirectProducer, groups: Mapping[Any, Any]) -> dict[Any, Any]:
    """Send each message by itself, and wait for it: the dispatch of runtimes without groups."""

    async def of_topic(stream: str, topic: str, messages: Any) -> Any:
        try:
            return [run for message in messages for run in await producer.send_to(stream, topic, [message])]
        except HeadraceError as error:
            return error

    results = await asyncio.gather(*(of_topic(*name, messages) for name, messages in groups.items()))
    return dict(zip(groups, results, strict=True))


def _count(connector: object) -> int:
    match connector:
        case SourceConnector():
            return connector.counters.routed
        case SinkConnector():
            return connector.counters.written
    raise AssertionError("the pipeline has one source or one sink")


async def _measured(file: Path, count: int) -> dict[str, float]:
    pipeline = read_pipeline(file, Plugins(), os.environ)
    clock = Clock()
    async with running(pipeline) as connectors:
        (connector,) = connectors.supervisor.connectors
        while _count(connector) < count:
            if connector.status.last_error is not None:
                raise AssertionError(connector.status.last_error)
            await asyncio.sleep(_LOOK_SECONDS)
        result = clock.result(count)
    return {"messages": count, "seconds": result.seconds}


if __name__ == "__main__":
    if sys.argv[3:] == ["one-by-one"]:
        DirectProducer.send_groups = _one_by_one  # type: ignore[method-assign]
    sys.stdout.write(json.dumps(asyncio.run(_measured(Path(sys.argv[1]), int(sys.argv[2])))))
