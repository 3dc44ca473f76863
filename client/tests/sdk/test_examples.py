"""The examples of the documentation of the SDK run, and every public class has one."""

import asyncio
import doctest
import warnings
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

import headrace
import headrace.aio
import headrace_core
from headrace_embedded import Server

MODULES: tuple[ModuleType, ...] = (
    headrace,
    headrace.aio,
    *(import_module(f"headrace.aio.{name}") for name in ("client", "consumer", "deliveries", "direct", "producer")),
    *(import_module(f"headrace.sdk.{name}") for name in ("client", "consumer", "direct", "direct_producer", "errors")),
    *(import_module(f"headrace.sdk.{name}") for name in ("options", "producer", "results", "starts", "telemetry")),
    *(import_module(f"headrace.sdk.blocking.{name}") for name in ("client", "consumer", "direct", "producer")),
    import_module("headrace.otel"),
    headrace_core,
)
FINDER = doctest.DocTestFinder(exclude_empty=True)
EXAMPLES = {test.name: test for module in MODULES for test in FINDER.find(module) if test.examples}
WITHOUT = {
    # Described where they are raised or returned.
    *(name for name in headrace.__all__ if isinstance(getattr(headrace, name), type))
} - {
    *("Client", "ClientOptions", "Consumer", "ConsumerOptions", "Deliveries", "Delivery", "Gap", "HeadraceError"),
    *("DirectProducer", "DirectProducerOptions", "Outgoing", "Producer", "ProducerOptions", "ReadBatch", "SentBatch"),
    *("Start", "Telemetry"),
}


@pytest.fixture(scope="module")
def url(server: Server) -> str:
    return f"headrace://{server.username}:{server.password}@{server.address}"


@pytest.fixture
def client(url: str) -> Iterator[headrace.Client]:
    """A client, on a server that has an empty topic `orders` in the stream `shop`."""
    with headrace.connect(url) as client:
        client.create_stream("shop")
        client.create_topic("shop", "orders", partitions=2)
        yield client
        client.delete_stream("shop")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, client: headrace.Client, url: str) -> None:
    example = EXAMPLES[name]
    example.globs |= {
        "asyncio": asyncio,
        "client": client,
        "connect": headrace.connect,
        "headrace": headrace,
        "url": url,
    }
    if name.startswith("headrace.aio"):
        example.globs["connect"] = headrace.aio.connect
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    output: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner.run(example, out=output.append, clear_globs=False)
    assert runner.failures == 0, "".join(output)


def test_every_class_that_is_used_directly_has_an_example() -> None:
    shown = {name.rpartition(".")[2] for name in EXAMPLES}
    described = {name for name in headrace.__all__ if isinstance(getattr(headrace, name), type)} - WITHOUT
    assert described <= shown
    for name in headrace.aio.__all__:
        value = getattr(headrace.aio, name)
        assert f"{value.__module__}.{value.__qualname__}" in EXAMPLES
