"""Routes about the server itself (GW-4)."""

from __future__ import annotations

import io
import zipfile
from importlib.metadata import version

import headrace_core
from tests.apis.http.api import Api, batch, rights
from tests.server_process import PASSWORD, USERNAME, ServerProcess


async def test_who_is_there(anonymous: Api) -> None:
    for path, text in (("/", b"Iggy API"), ("/ping", b"pong")):
        answer = await anonymous("GET", path)
        assert (answer.status, answer.body) == (200, text)
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert "aiohttp" not in answer.headers["Server"]


async def test_statistics(root: Api) -> None:
    stats = await root.ok("GET", "/stats")
    assert stats["iggy_server_semver"] is None or stats["iggy_server_semver"] >= 1000
    assert stats["memory_usage"].split()[1] in {"B", "KB", "KiB", "MB", "MiB", "GiB"}
    assert stats["cache_metrics"] == {}
    assert isinstance(stats["cpu_usage"], float)
    as_bytes = await root.ok("GET", "/stats?sizes=bytes")
    assert as_bytes["total_memory"] > 10**8
    assert as_bytes.keys() == stats.keys()


async def test_statistics_of_the_last_hour(root: Api) -> None:
    topic = await root.create_topic("history")
    before = await root.ok("GET", "/stats/history")
    assert before["interval_seconds"] == 10
    await root.ok("POST", f"{topic}/messages", batch(b"m", b"n"))
    after = await root.ok("GET", "/stats/history")
    # The last sample is that of the request.
    assert after["samples"][-1]["messages_count"] == before["samples"][-1]["messages_count"] + 2
    times = [sample["timestamp"] for sample in after["samples"]]
    assert times == sorted(times)
    assert len(times) >= 2
    assert after["samples"][-1]["memory_usage"] > 2**20


async def test_cluster(root: Api, shared_server: ServerProcess) -> None:
    cluster = await root.ok("GET", "/cluster/metadata")
    (node,) = cluster["nodes"]
    assert (cluster["name"], node["name"]) == ("single-node", "iggy-node")
    assert (node["role"], node["status"]) == ("leader", "healthy")
    assert node["endpoints"]["tcp"] == shared_server.port
    assert f":{node['endpoints']['http']}" in shared_server.http_url


async def test_state_of_the_cluster(root: Api, shared_server: ServerProcess) -> None:
    await root.create_topic("cluster-state", partitions=2)
    state = await root.ok("GET", "/cluster")
    assert (state["name"], state["kind"], state["process_name"]) == ("single-node", "embedded", "iggy-node")
    assert (state["release"], state["unready"]) == (version("headrace"), None)
    (node,) = state["nodes"]
    assert (node["state"], node["address"]) == ("live", shared_server.address)
    assert node["partitions_count"] >= 2
    assert node["shards_count"] >= 1
    (replica,) = state["replicas"]
    assert (replica["address"], replica["state"], replica["is_storage_full"]) == ("", "primary", False)
    assert replica["applied"] == replica["commit"] > 0
    guest = await root.create_user("cluster-guest", rights("read_streams"))
    assert (await guest("GET", "/cluster")).status == 403


async def test_connections(root: Api, shared_server: ServerProcess) -> None:
    """HTTP callers are not listed."""
    assert await root.ok("GET", "/clients") == []
    client = headrace_core.Client.connect(shared_server.address)
    client.ping()
    assert (await root.ok("GET", "/clients"))[0]["user_id"] is None
    client.login(USERNAME, PASSWORD)
    (listed,) = await root.ok("GET", "/clients")
    assert (listed["user_id"], listed["transport"], listed["consumer_groups_count"]) == (0, "tcp", 0)
    found = await root.ok("GET", f"/clients/{listed['client_id']}")
    assert found == listed | {"consumer_groups": []}
    client.close()
    missing = await root("GET", f"/clients/{listed['client_id'] + 1}")
    assert (missing.status, missing.data["code"]) == (404, "not_found")
    assert (await root("GET", "/clients/somebody")).status == 400


async def test_snapshot_needs_the_right_to_read_the_server(root: Api) -> None:
    """The reference server returns the snapshot, including secrets, to every user."""
    body = {"compression": "Deflated", "snapshot_types": ["Test", "ServerConfig"]}
    answer = await root("POST", "/snapshot", body)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/zip")
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="iggy_snapshot_2')
    archive = zipfile.ZipFile(io.BytesIO(answer.body))
    assert sorted(archive.namelist()) == ["server_config.txt", "test.txt"]
    assert b"password is set, but not shown" in archive.read("server_config.txt")
    assert archive.read("test.txt") == b"test\n"
    guest = await root.create_user("snapshot-guest", rights("read_streams"))
    assert (await guest("POST", "/snapshot", body)).code == 41
    assert (await root("POST", "/snapshot", {**body, "snapshot_types": ["All", "Test"]})).code == 3
    assert (await root("POST", "/snapshot", {**body, "compression": "deflated"})).status == 422


async def test_metrics(root: Api, anonymous: Api) -> None:
    await root.create_topic("metrics", partitions=2)
    await anonymous("GET", "/streams")
    text = (await anonymous("GET", "/metrics")).body.decode()
    assert text.endswith("# EOF\n")
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["streams"]) >= 1
    assert float(values["partitions"]) >= 2
    assert float(values["users"]) >= 1
    assert float(values["http_requests_total"]) >= 4
    assert float(values['headrace_http_errors_total{code="40",name="unauthenticated"}']) >= 1
    assert 'headrace_http_request_duration_seconds_count{method="POST",route="/streams",status="200"}' in values
    assert any(name.startswith("headrace_node_pool") for name in values)
    answer = await anonymous("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    for wrong in ("x", "1.x", "9" * 5000):
        for media_type in ("application/openmetrics-text", "text/plain"):
            answer = await anonymous("GET", "/metrics", headers={"Accept": f"{media_type};version={wrong}"})
            assert (answer.status, answer.headers["Content-Type"]) == (200, "text/plain; charset=utf-8"), wrong
