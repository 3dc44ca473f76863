"""The cluster in use: the journeys through the balancer, metrics in Prometheus, the database."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.containers.cluster import CONNECTORS, SERVICES, Containers, wait_until
from tests.containers.load import TOPIC, Entrance

ROOT = Path(__file__).resolve().parents[2]
_JOURNEYS_SECONDS = 280
_SCRAPED_SECONDS = 60.0


class Prometheus:
    """Client of Prometheus."""

    def __init__(self, cluster: Containers) -> None:
        password = cluster.inside("prometheus", "cat /run/keys/basic").strip()
        assert base64.b64decode(password).startswith(b"headrace:")
        self._headers = {"Authorization": f"Basic {password}"}
        self._url = f"http://127.0.0.1:{cluster.ports['PROMETHEUS']}/api/v1/query"

    def without_a_token(self) -> None:
        """Query without the password."""
        urllib.request.urlopen(f"{self._url}?query=up", timeout=20)

    def asked(self, question: str) -> list[dict[str, Any]]:
        """Run a query and return its result."""
        query = urllib.parse.urlencode({"query": question})
        request = urllib.request.Request(f"{self._url}?{query}", headers=self._headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return result


def test_the_journeys(cluster: Containers, entrance: Entrance) -> None:
    """The same suite that runs against the embedded server, through the balancer."""
    listeners = cluster.listeners
    address = ",".join(
        f"{listener}={getattr(listeners, listener)}" for listener in ("tcp", "websocket", "http", "grpc")
    )
    environment = os.environ | {
        "JOURNEY_GATEWAYS": address,
        "JOURNEY_USERNAME": entrance.username,
        "JOURNEY_PASSWORD": entrance.password,
    }
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--quiet", "tests/journeys", "-k", "addresses"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_JOURNEYS_SECONDS,
        check=False,
    )
    sys.stdout.write(run.stdout)
    assert run.returncode == 0


@pytest.fixture(scope="module")
def prometheus(cluster: Containers) -> Prometheus:
    """The one of the cluster."""
    return Prometheus(cluster)


def test_prometheus_has_metrics_of_every_service(prometheus: Prometheus) -> None:
    """Prometheus scrapes services and connectors with tokens for metrics; Prometheus itself requires a password."""
    with pytest.raises(urllib.error.HTTPError, match="401"):
        prometheus.without_a_token()
    wait_until(
        lambda: len(prometheus.asked("up == 1")) == len(SERVICES) + len(CONNECTORS),
        _SCRAPED_SECONDS,
        lambda: f"up: {prometheus.asked('up')}",
    )


def test_the_dashboard_has_something_to_show(prometheus: Prometheus, entrance: Entrance, name: str) -> None:
    """Prometheus understands every question of the dashboard, and has an answer to those about traffic."""
    client = entrance.open()
    client.create_stream(name)
    client.create_topic(name, TOPIC, 1)
    client.send(name, TOPIC, [b"x"], partition=0)
    client.close()
    program = ROOT / "compose/dashboards/build.py"
    dashboard = json.loads(subprocess.run([sys.executable, program], capture_output=True, check=True).stdout)
    panels = [inner for panel in dashboard["panels"] for inner in (panel, *panel.get("panels", ()))]
    questions = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert questions
    for question in questions:
        prometheus.asked(question.replace("$__rate_interval", "1m").replace("$__range", "1h"))
    wait_until(
        lambda: any(float(series["value"][1]) > 0 for series in prometheus.asked("headrace_appended_messages_total")),
        _SCRAPED_SECONDS,
        lambda: str(prometheus.asked("headrace_appended_messages_total")),
    )
    running = 'max by (connector_key) (headrace_connector_state{state="running"}) == 1'
    wait_until(
        lambda: {one["metric"]["connector_key"] for one in prometheus.asked(running)} == {"orders", "order-copies"},
        _SCRAPED_SECONDS,
        lambda: str(prometheus.asked("headrace_connector_state")),
    )


def test_the_database_answers_with_its_password_and_tls(cluster: Containers) -> None:
    how = "dbname=postgres user=headrace sslmode=verify-full sslrootcert=/run/keys/authority.pem"
    asked_over_tls = f"psql 'host=postgres {how}' -Atc"
    question = "select ssl from pg_stat_ssl where pid = pg_backend_pid()"
    answer = cluster.inside("postgres", f'PGPASSWORD=$(< /run/keys/password) {asked_over_tls} "{question}"')
    assert answer.strip() == "t"
    refusal = cluster.inside("postgres", f'PGPASSWORD=wrong {asked_over_tls} "{question}" 2>&1 || true')
    assert "password authentication failed" in refusal
