"""Admission of destinations."""

import asyncio

import pytest

from headrace.sdk.errors import DeadlineExceeded, PermissionDenied
from headrace_connectors.admission.table import AdmissionTable, NotCreated
from headrace_connectors.contract import Destination, Record
from headrace_connectors.pipeline_file.models import Admission, CircuitBreaker


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Server:
    """Creates topics; some fail."""

    def __init__(self, partitions=1, failures=None):
        self.partitions = partitions
        self.failures = failures or {}
        self.created = []

    async def __call__(self, name):
        await asyncio.sleep(0)
        if name in self.failures:
            raise self.failures[name]
        self.created.append(name)
        return self.partitions


def table(server, clock=None, **settings):
    breaker = settings.pop("breaker", {})
    return AdmissionTable(Admission(**settings), CircuitBreaker(**breaker), server, clock or Clock())


def groups(*names, partition=None):
    return {name: [Record(b"x", destination=Destination(*name, partition=partition))] for name in names}


async def test_destinations_are_created_once():
    server = Server()
    admission = table(server)
    for _ in range(3):
        admitted, refused = await admission.admit(groups(("s", "a"), ("s", "b")))
        assert (set(admitted), refused) == ({("s", "a"), ("s", "b")}, [])
    assert sorted(server.created) == [("s", "a"), ("s", "b")]
    assert len(admission) == 2


@pytest.mark.parametrize("mode", ["open", "allowlist", "denylist"])
async def test_the_cap_holds_in_every_mode(mode):
    lists = {
        "open": {},
        "allowlist": {"allow": [{"stream": "s", "topic": "*"}]},
        "denylist": {"deny": [{"stream": "x", "topic": "*"}]},
    }
    admission = table(Server(), mode=mode, max_destinations=2, **lists[mode])
    admitted, refused = await admission.admit(groups(("s", "a"), ("s", "b"), ("s", "c")))
    assert set(admitted) == {("s", "a"), ("s", "b")}
    assert [(one.destination, one.reason) for one in refused] == [(("s", "c"), "cap")]
    assert "max_destinations" in refused[0].text


async def test_refused_destinations_take_no_memory():
    admission = table(Server(), max_destinations=1)
    for number in range(1000):
        await admission.admit(groups(("s", f"t{number}")))
    assert len(admission) == 1


async def test_lists_decide():
    allowing = table(Server(), mode="allowlist", allow=[{"stream": "s", "topic": "a.b"}])
    _, refused = await allowing.admit(groups(("s", "a.b"), ("s", "axb")))
    assert [(one.destination, one.reason) for one in refused] == [(("s", "axb"), "unknown")]
    denying = table(Server(), mode="denylist", deny=[{"stream": "*", "topic": "secret"}])
    _, refused = await denying.admit(groups(("s", "a"), ("t", "secret")))
    assert [(one.destination, one.reason) for one in refused] == [(("t", "secret"), "denylist")]


async def test_a_topic_that_is_not_to_be_created_leaves_its_place():
    admission = table(Server(failures={("s", "typo"): NotCreated("create it")}), max_destinations=1)
    admitted, refused = await admission.admit(groups(("s", "typo")))
    assert (admitted, refused[0].reason, refused[0].text) == ({}, "unknown", "create it")
    admitted, _ = await admission.admit(groups(("s", "a")))
    assert set(admitted) == {("s", "a")}


async def test_several_batches_find_that_a_topic_is_missing():
    """Several batches in flight ask for the topic before the first one knows the answer."""
    admission = table(Server(failures={("s", "typo"): NotCreated("create it")}))
    found = await asyncio.gather(*(admission.admit(groups(("s", "typo"), ("s", "a"))) for _ in range(2)))
    for admitted, refused in found:
        assert set(admitted) == {("s", "a")}
        assert [(one.destination, one.reason) for one in refused] == [(("s", "typo"), "unknown")]
    assert len(admission) == 1


async def test_a_batch_is_sent_while_another_one_finds_that_its_topic_is_missing():
    server, name = Server(), ("s", "t")
    admission = table(server)
    await admission.admit(groups(name))
    admission.failed(name, "deleted", is_own=True)
    server.failures[name] = NotCreated("create it")
    _, refused = await admission.admit(groups(name))
    assert [one.reason for one in refused] == ["unknown"]
    # The answers to the batches that were on their way.
    admission.succeeded(name, 1)
    admission.failed(name, "deleted", is_own=True)
    assert len(admission) == 0


@pytest.mark.parametrize("name", [("", "t"), ("s", "x" * 256)])
async def test_names_are_checked(name):
    _, refused = await table(Server()).admit(groups(name))
    assert refused[0].reason == "unknown"


async def test_partition_ids_are_checked_and_do_not_count_as_failures():
    admission = table(Server(partitions=4), breaker={"failure_threshold": 1})
    name = ("s", "t")
    records = [
        Record(b"", destination=Destination(*name, partition=partition)) for partition in (0, 99, 3, 4, None, -1)
    ]
    admitted, refused = await admission.admit({name: records})
    assert [record.destination.partition for record in admitted[name]] == [0, 3, None]
    assert (refused[0].reason, refused[0].records_count) == ("partition_id_out_of_range", 3)
    assert admission.open_circuits_count == 0
    admitted, _ = await admission.admit({name: [records[1]]})
    assert admitted == {}


async def test_a_topic_that_has_got_more_partitions_is_looked_up_again():
    """Once a second at most, as a wrong record would ask the server each time otherwise."""
    server, clock = Server(partitions=2), Clock()
    admission = table(server, clock)
    name = ("s", "t")
    for partitions, now, is_admitted, lookups in (
        (2, 0.0, False, 1),
        (4, 0.5, False, 1),
        (4, 1.5, True, 2),
        (4, 9.0, True, 2),
    ):
        server.partitions, clock.now = partitions, now
        admitted, refused = await admission.admit(groups(name, partition=3))
        assert (bool(admitted), bool(refused)) == (is_admitted, not is_admitted)
        assert len(server.created) == lookups
    _, refused = await admission.admit(groups(name, partition=4))
    assert refused[0].reason == "partition_id_out_of_range"
    assert len(server.created) == 3


async def test_a_topic_that_cannot_be_looked_up_again_fails_its_batch():
    server, clock = Server(partitions=2), Clock()
    admission = table(server, clock)
    name = ("s", "t")
    await admission.admit(groups(name))
    clock.now = 2.0
    server.failures[name] = DeadlineExceeded("late")
    with pytest.raises(DeadlineExceeded):
        await admission.admit(groups(name, partition=3))
    server.failures.clear()
    server.partitions = 4
    admitted, _ = await admission.admit(groups(name, partition=3))
    assert set(admitted) == {name}


async def test_an_open_circuit_refuses_one_destination_only():
    clock = Clock()
    admission = table(Server(), clock, breaker={"failure_threshold": 2, "cool_down": "30 s"})
    both = groups(("s", "a"), ("s", "b"))
    await admission.admit(both)
    for _ in range(2):
        admission.failed(("s", "a"), "lost", is_own=True)
        admission.failed(("s", "b"), "all are lost", is_own=False)
    admitted, refused = await admission.admit(both)
    assert (set(admitted), refused[0].reason) == ({("s", "b")}, "circuit_open")
    assert "lost" in refused[0].text
    assert admission.open_circuits_count == 1
    assert [one["circuit"] for one in admission.documents()] == ["open", "closed"]
    clock.now = 30
    admitted, refused = await admission.admit(both)
    assert (set(admitted), refused) == ({("s", "a"), ("s", "b")}, [])
    admission.succeeded(("s", "a"), 5)
    assert [one["circuit"] for one in admission.documents()] == ["closed", "closed"]
    assert admission.documents()[0]["messages_count"] == 5


async def test_a_destination_that_may_not_be_looked_up_is_refused_alone():
    """CON-8: the first batch fails with it, and later ones do not; its place is free again when another needs it."""
    clock = Clock()
    server = Server(failures={("s", "a"): PermissionDenied("no permission")})
    admission = table(server, clock, breaker={"cool_down": "30 s"}, max_destinations=2)
    both = groups(("s", "a"), ("s", "b"))
    with pytest.raises(PermissionDenied):
        await admission.admit(both)
    admitted, refused = await admission.admit(both)
    assert (set(admitted), refused[0].reason) == ({("s", "b")}, "circuit_open")
    assert "s/a: no permission; permit it to the user that [server] names" in refused[0].text
    _, refused = await admission.admit(groups(("s", "c")))
    assert refused[0].reason == "cap"
    clock.now = 30.0
    admitted, refused = await admission.admit(groups(("s", "b"), ("s", "c")))
    assert (set(admitted), refused) == ({("s", "b"), ("s", "c")}, [])
    assert server.created == [("s", "b"), ("s", "c")]


async def test_a_look_up_that_fails_for_now_opens_no_circuit():
    server = Server(failures={("s", "a"): DeadlineExceeded("late")})
    admission = table(server, breaker={"failure_threshold": 1})
    with pytest.raises(DeadlineExceeded):
        await admission.admit(groups(("s", "a")))
    server.failures.clear()
    admitted, refused = await admission.admit(groups(("s", "a")))
    assert (set(admitted), refused) == ({("s", "a")}, [])


async def test_named_destinations_are_created_at_the_start():
    server = Server(failures={("s", "bad"): OSError("no")})
    allow = [{"stream": "s", "topic": "a"}, {"stream": "s", "topic": "*"}, {"stream": "s", "topic": "bad"}]
    admission = table(server, mode="allowlist", allow=allow)
    assert await admission.prewarm() == [("s", "bad")]
    assert server.created == [("s", "a")]


async def test_the_start_does_not_wait_for_ever():
    async def never(name):
        await asyncio.Event().wait()

    admission = table(never, mode="allowlist", allow=[{"stream": "s", "topic": "a"}], startup_prewarm_deadline="10 ms")
    assert await admission.prewarm() == [("s", "a")]


async def test_a_failure_of_the_server_is_the_failure_of_the_batch():
    admission = table(Server(failures={("s", "a"): OSError("not reached")}))
    with pytest.raises(OSError, match="not reached"):
        await admission.admit(groups(("s", "a"), ("s", "b")))
    assert admission.documents()[0]["last_error"] == "not reached"
