"""The page of the cluster."""

from __future__ import annotations

from importlib.metadata import version

from playwright.sync_api import Page, Route, expect

from tests.console.api import Api
from tests.console.conftest import Screenshot
from tests.console.steps import log_in, visit
from tests.server_process import ServerProcess


def test_an_embedded_server_is_one_node_and_one_replica(
    page: Page, api: Api, name: str, shared_server: ServerProcess, screenshot: Screenshot
) -> None:
    api.topic(name, partitions=2)
    log_in(page)
    expect(page.get_by_text(f"Headrace {version('headrace')}")).to_be_visible()
    page.get_by_role("link", name="Cluster").click()
    node = page.get_by_role("row", name="iggy-node")
    expect(node).to_contain_text("live")
    expect(node).to_contain_text(shared_server.address)
    expect(page.get_by_role("row", name="in this process")).to_contain_text("primary")
    expect(page.get_by_text(f"Headrace {version('headrace')}")).to_be_visible()
    expect(page.get_by_text("ready", exact=True)).to_be_visible()
    screenshot(page, "cluster")


def test_what_fails_is_named(page: Page, screenshot: Screenshot) -> None:
    """The answer of a gateway with nodes that are silent or not reached, and a stopped replica."""
    node = {"state": "live", "address": "10.0.0.1:8100", "shards_count": 4, "partitions_count": 3}
    replica = {
        "state": "backup",
        "view": 3,
        "commit": 812,
        "applied": 812,
        "release": "0.1.0",
        "is_storage_full": False,
    }
    absent = [node | {"name": "node-1", "state": "silent"}, node | {"name": "node-2", "state": "unreachable"}]
    nothing = dict.fromkeys(("view", "commit", "applied", "release"))
    state = {
        "name": "shop",
        "kind": "gateway",
        "process_name": "gateway-0",
        "release": "0.1.0",
        "unready": None,
        "catalog_version": 812,
        "catalog_age_seconds": 1.5,
        "nodes": [node | {"name": "node-0"}, *absent],
        "replicas": [
            replica | {"address": "10.0.1.1:8111", "state": "primary"},
            replica | {"address": "10.0.1.2:8111", "is_storage_full": True},
            replica | {"address": "10.0.1.3:8111", "state": "no answer"} | nothing,
        ],
    }

    def answer(route: Route) -> None:
        route.fulfill(json=state)

    page.route("**/cluster", answer)
    log_in(page)
    expect(page.get_by_role("heading", name="Gateway gateway-0")).to_be_visible()
    visit(page, "cluster")
    expect(page.get_by_text("No contact with node-1, node-2: 6 partitions cannot be read or written.")).to_be_visible()
    expect(page.get_by_text("2 of 3 metadata replicas work: the service works, with less redundancy.")).to_be_visible()
    expect(page.get_by_role("row", name="10.0.1.2:8111")).to_contain_text("disk full")
    expect(page.get_by_role("row", name="10.0.1.3:8111")).to_contain_text("no answer")
    expect(page.get_by_text("Gateways do not know each other")).to_be_visible()
    screenshot(page, "cluster-trouble")
