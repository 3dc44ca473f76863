"""Restrictions of containers, as configured in the engine and as effective inside."""

from __future__ import annotations

import pytest

from tests.containers.cluster import CONNECTORS, GATEWAYS, METADATA, NODES, OTHERS, SERVICES, Containers

LISTENING = {
    **dict.fromkeys(METADATA, (8110, 8111, 8112)),
    **dict.fromkeys(NODES, (8100, 8101, 8102)),
    **dict.fromkeys(GATEWAYS, (8090, 8092, 3000, 8094)),
    "balancer": (8090, 8092, 3000, 8094),
    **dict.fromkeys(CONNECTORS, (8120,)),
    "postgres": (5432,),
    "prometheus": (9090,),
}
"""Ports that others reach."""

STATUS = "cat /proc/self/status"


@pytest.mark.parametrize("service", [*SERVICES, *OTHERS, *CONNECTORS])
def test_no_process_is_root_or_may_become_it(cluster: Containers, service: str) -> None:
    status = dict(line.split(":\t", 1) for line in cluster.inside(service, STATUS).splitlines() if ":\t" in line)
    assert status["Uid"].split() == ["10001"] * 4
    for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[capabilities], 16) == 0, capabilities
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2", "a filter of system calls"
    # All processes, not only the one that looks.
    owners = cluster.inside(service, "cat /proc/[0-9]*/status 2> /dev/null | grep ^Uid | sort -u").split()
    assert set(owners) == {"Uid:", "10001"}


@pytest.mark.parametrize("service", [*SERVICES, *OTHERS, *CONNECTORS])
def test_nothing_but_its_data_can_be_written(cluster: Containers, service: str) -> None:
    directories = "/ /etc /opt /usr /usr/local/bin /var /run"
    written = cluster.inside(service, f"for f in {directories}; do touch $f/x 2> /dev/null && echo $f; done; true")
    assert written.split() == []
    # The refusal must come from the read-only file system, not from file ownership.
    refusal = cluster.inside(service, "touch /etc/hostname.new 2>&1 || true")
    assert "Read-only file system" in refusal, refusal
    runs = cluster.inside(service, "cp /usr/bin/true /tmp/true; /tmp/true 2> /dev/null && echo runs; rm /tmp/true")
    assert runs == "", "what is written to /tmp does not run"
    mounts = [line.split() for line in cluster.inside(service, "cat /proc/self/mounts").splitlines()]
    options = {mount[1]: mount[3].split(",") for mount in mounts}
    assert "ro" in options["/"]
    assert {"nosuid", "nodev", "noexec"} <= set(options["/tmp"])


@pytest.mark.parametrize("service", [*SERVICES, *OTHERS, *CONNECTORS])
def test_it_has_limits_and_comes_back(cluster: Containers, service: str) -> None:
    host = cluster.inspect(service)["HostConfig"]
    assert host["Memory"] > 0
    assert host["NanoCpus"] > 0
    assert host["PidsLimit"] > 0
    assert host["RestartPolicy"]["Name"] == "unless-stopped"
    assert not host["Privileged"]


@pytest.mark.parametrize("service", [*SERVICES, *OTHERS, *CONNECTORS])
def test_secrets_are_for_their_owner_alone(cluster: Containers, service: str) -> None:
    """Unneeded secrets are absent; needed ones are readable only by their owner, and are not in the environment."""
    if service != "balancer":
        files = cluster.inside(service, "stat --format '%a %u %n' /run/keys /run/keys/*").splitlines()
        for file in files:
            mode, owner, path = file.split()
            assert (mode, owner) == ("700" if path == "/run/keys" else "400", "10001"), file
        if service not in SERVICES:
            assert not any(file.endswith("/secret") for file in files)
        assert not any("authority.key" in file for file in files)
    described = str(cluster.inspect(service)["Config"]["Env"])
    for secret in ("SECRET=", "PASSWORD="):
        assert secret not in described


@pytest.mark.parametrize("service", [*NODES, *GATEWAYS])
def test_io_uring_is_in_use(cluster: Containers, service: str) -> None:
    assert rings(cluster, service) > 0


@pytest.mark.parametrize("service", [*SERVICES, *OTHERS, *CONNECTORS])
def test_only_the_ports_that_are_known_listen(cluster: Containers, service: str) -> None:
    """Every port beyond loopback is known and authenticates its clients; the security tests cover these ports."""
    found = set()
    for line in cluster.inside(service, "cat /proc/net/tcp /proc/net/tcp6").splitlines():
        fields = line.split()
        if fields[0] != "sl" and fields[3] == "0A" and not fields[1].split(":")[0].endswith("7F"):
            found.add(int(fields[1].rsplit(":", 1)[1], 16))
    # The engine's own name server listens within every container, on loopback.
    assert found == set(LISTENING[service])


def test_nothing_is_published_beyond_this_machine(cluster: Containers) -> None:
    for service in (*SERVICES, *OTHERS, *CONNECTORS):
        ports = cluster.inspect(service)["HostConfig"]["PortBindings"] or {}
        assert all(binding["HostIp"] == "127.0.0.1" for bindings in ports.values() for binding in bindings)
        assert bool(ports) == (service in {"balancer", "prometheus"})


def rings(cluster: Containers, service: str) -> int:
    """Number of io_uring instances of the processes of a container."""
    return cluster.inside(service, "ls -l /proc/[0-9]*/fd 2> /dev/null || true").count("anon_inode:[io_uring]")
