"""All consumer groups on one page, and the clients that are their members."""

from __future__ import annotations

from contextlib import closing

from playwright.sync_api import Locator, Page, expect

import headrace_core
from tests.console.api import Api
from tests.console.conftest import Screenshot
from tests.console.steps import log_in, visit
from tests.server_process import PASSWORD, USERNAME, ServerProcess


def names(page: Page) -> Locator:
    return page.get_by_role("region", name="Consumer groups").get_by_role("rowheader")


def test_laggards_of_all_topics_are_on_one_page(page: Page, api: Api, name: str, screenshot: Screenshot) -> None:
    for topic, groups, messages in (("orders", ("billing", "audit"), 3), ("prices", ("charts",), 0)):
        path = f"/streams/{name}-{topic}/topics/{topic}"
        api.topic(f"{name}-{topic}", topic, partitions=2)
        for group in groups:
            api("POST", f"{path}/consumer-groups", {"name": group})
        if messages:
            api.send(path, [b"m"] * messages)
    # The members over HTTP stay until the server stops.
    member = api("POST", f"/streams/{name}-orders/topics/orders/consumer-groups/billing/members")["member"]
    own = f"/streams/{name}-orders/topics/orders/consumer-groups/billing/members/{member}"
    api("GET", f"{own}/messages?count=2&auto_commit=true&partition_id=0")
    log_in(page)
    page.get_by_role("link", name="Consumer groups").click()
    page.get_by_label("Contains").fill(name)
    expect(names(page)).to_have_text(["audit", "billing", "charts"])
    row = page.get_by_role("row", name="audit")
    expect(row.get_by_text("no members")).to_be_visible()
    expect(row.get_by_role("cell").nth(1)).to_have_text("3")
    billing = page.get_by_role("row", name="billing")
    expect(billing.get_by_role("cell").nth(1)).to_have_text("1")
    expect(billing.get_by_text("reading")).to_be_visible()
    expect(page.get_by_role("row", name="charts").get_by_text("up to date")).to_be_visible()
    screenshot(page, "groups")
    page.get_by_role("button", name="Lag", exact=True).click()
    expect(page.get_by_role("columnheader", name="Lag")).to_have_attribute("aria-sort", "descending")
    expect(names(page)).to_have_text(["audit", "billing", "charts"])
    page.get_by_role("button", name="Lag", exact=True).click()
    expect(names(page)).to_have_text(["charts", "billing", "audit"])
    page.get_by_label("Only groups that lag").check()
    expect(names(page)).to_have_text(["audit"])
    page.get_by_role("link", name="audit").click()
    expect(page.get_by_role("heading", name="audit")).to_be_visible()


def test_a_member_leads_to_its_client(
    page: Page, api: Api, name: str, shared_server: ServerProcess, screenshot: Screenshot
) -> None:
    topic = api.topic(name)
    api("POST", f"{topic}/consumer-groups", {"name": "readers"})
    with closing(headrace_core.Client.connect(shared_server.address)) as client:
        client.login(USERNAME, PASSWORD)
        client.join_group(name, "orders", "readers")
        log_in(page)
        visit(page, f"streams/{name}/topics/orders/consumers")
        named = page.get_by_role("paragraph").get_by_role("link", name="client").inner_text()
        # The same client owns the partition.
        page.get_by_role("region", name="Offsets of group readers").get_by_role("link", name=named).click()
        expect(page.get_by_role("heading", name=named, exact=False)).to_be_visible()
        expect(page.get_by_role("row", name="readers")).to_contain_text(f"{name}/orders")
        expect(page.get_by_text("1 consumer group", exact=True)).to_be_visible()
        screenshot(page, "client")
        page.get_by_role("button", name="Disconnect").click()
        page.get_by_role("dialog").get_by_role("button", name="Disconnect").click()
        expect(page.get_by_role("heading", name="Clients")).to_be_visible()
        expect(page.get_by_text("was disconnected")).to_be_visible()
