"""One connector under load, in a process of its own: `python -m tests.performance.loads.connector_load`."""

from __future__ import annotations

import argparse
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
from headrace_connectors.garbage_collection import loaded_objects_frozen
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


async def _measured(options: argparse.Namespace) -> dict[str, float]:
    pipeline = read_pipeline(options.file, Plugins(), os.environ)
    clock = Clock()
    async with running(pipeline) as connectors:
        (connector,) = connectors.supervisor.connectors
        if options.request is not None:
            return await _called(options)
        while _count(connector) < options.count:
            if connector.status.last_error is not None:
                raise AssertionError(connector.status.last_error)
            await asyncio.sleep(_LOOK_SECONDS)
        return {"count": options.count, "seconds": clock.result(options.count).seconds}


async def _called(options: argparse.Namespace) -> dict[str, float]:
    """Let callers in another process send requests, until all are answered."""
    command = ["-m", "tests.performance.loads.http_callers", options.request, str(options.requests)]
    callers = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
    output, _ = await callers.communicate()
    assert callers.returncode == 0, "the callers have failed"
    return {"count": options.requests, "seconds": json.loads(output)["seconds"]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("result", type=Path)
    parser.add_argument("--one-by-one", action="store_true")
    parser.add_argument("--request")
    parser.add_argument("--requests", type=int)
    parsed = parser.parse_args()
    if parsed.one_by_one:
        DirectProducer.send_groups = _one_by_one  # type: ignore[method-assign]
    # As the process of connectors.
    with loaded_objects_frozen():
        found = asyncio.run(_measured(parsed))
    parsed.result.write_text(json.dumps(found), encoding="utf-8")
