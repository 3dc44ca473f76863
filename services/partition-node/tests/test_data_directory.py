"""Data directory of a node: its owner, its runs, and the stored catalog version."""

import json

import pytest

from headrace_chassis.errors import DirectoryInUse
from headrace_partition_node.data_directory import HighestVersion, opened
from headrace_partition_node.directory_check import check
from headrace_partition_node.errors import DataLost, ForeignDirectory
from headrace_proto.catalog.v1 import Node
from headrace_proto.metadata.v1 import NodeRecord, ReplicaStatus


def open_directory(path, node="node-1", cluster="tests"):
    return opened(str(path), node_name=node, cluster_name=cluster)


def test_it_is_made_and_found_again(tmp_path):
    with open_directory(tmp_path / "data") as directory:
        assert not directory.was_registered
        directory.claim("abc", "c0")
        directory.registering(17)
        assert directory.is_of(17)
        assert not directory.was_registered
        directory.registered()
    with open_directory(tmp_path / "data") as directory:
        assert directory.was_registered
        directory.claim("abc", "c0")
        directory.registering(18)
        assert [directory.is_of(incarnation) for incarnation in (16, 17, 18)] == [False, True, True]
    info = json.loads((tmp_path / "data" / "info.json").read_text())
    assert info["product"] == "headrace-partition-node"
    assert (info["node_name"], info["cluster_name"], info["cluster_id"]) == ("node-1", "tests", "abc")
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


class Cluster:
    """Record of the node, which has partitions from its first registration on."""

    def __init__(self):
        self.incarnation = None

    identity = "c0"

    async def version(self):
        return 1

    async def catalog_identity(self):
        return self.identity

    async def nodes(self):
        if self.incarnation is None:
            return []
        return [NodeRecord(node=Node(name="node-1", incarnation=self.incarnation), replicas_count=3)]

    async def statuses(self):
        return [ReplicaStatus(cluster_id="abc")]


async def run(path, cluster, incarnation, *, is_applied=True, is_known=True, is_loss_expected=False):
    """Run a node up to its registration, which the cluster may not get, and the node may not learn of."""
    with open_directory(path) as directory:
        await check(cluster, directory, node_name="node-1", highest_version=0, is_loss_expected=is_loss_expected)
        directory.registering(incarnation)
        if is_applied:
            cluster.incarnation = incarnation
        if is_applied and is_known:
            directory.registered()


@pytest.mark.parametrize("runs_before", [0, 1])
@pytest.mark.parametrize("is_loss_expected", [False, True])
async def test_interrupted_registrations_lose_no_directory(tmp_path, runs_before, is_loss_expected):
    cluster = Cluster()
    for incarnation in range(5, 5 + runs_before):
        await run(tmp_path, cluster, incarnation)
    await run(tmp_path, cluster, 6, is_known=False)
    for incarnation in (7, 8):
        await run(tmp_path, cluster, incarnation, is_applied=False, is_loss_expected=is_loss_expected)
    await run(tmp_path, cluster, 9)


async def test_a_run_with_another_directory_is_a_loss_after_interrupted_registrations(tmp_path):
    cluster, one, other = Cluster(), tmp_path / "one", tmp_path / "other"
    await run(one, cluster, 5)
    await run(one, cluster, 6, is_known=False)
    await run(one, cluster, 7, is_applied=False)
    await run(other, cluster, 8, is_loss_expected=True)
    with pytest.raises(DataLost, match="has run with another data directory"):
        await run(one, cluster, 9)


def test_a_run_elsewhere_registers_no_directory(tmp_path):
    with open_directory(tmp_path) as directory:
        directory.registering(5)
        directory.found(4)
        assert not directory.was_registered


def test_one_process_at_a_time_uses_it(tmp_path):
    with (
        open_directory(tmp_path),
        pytest.raises(DirectoryInUse, match="in use by another server"),
        open_directory(tmp_path),
    ):
        pass


@pytest.mark.parametrize(
    ("names", "reason"),
    [({"node": "node-2"}, "belongs to the node 'node-1'"), ({"cluster": "other"}, "belongs to the cluster 'tests'")],
)
def test_another_nodes_or_clusters_directory_is_refused(tmp_path, names, reason):
    with open_directory(tmp_path):
        pass
    before = (tmp_path / "info.json").read_bytes()
    with pytest.raises(ForeignDirectory, match=reason), open_directory(tmp_path, **names):
        pass
    assert (tmp_path / "info.json").read_bytes() == before


def test_another_cluster_of_the_same_name_is_refused(tmp_path):
    with open_directory(tmp_path) as directory:
        directory.claim("abc", "")
        with pytest.raises(ForeignDirectory, match="belongs to another cluster"):
            directory.claim("def", "")


@pytest.mark.parametrize("is_loss_expected", [False, True])
async def test_a_cluster_with_another_catalog_is_refused_whatever_its_name(tmp_path, is_loss_expected):
    """The id of a cluster comes from its name: two of them with one name differ in the identity of the catalog."""
    cluster, other = Cluster(), Cluster()
    other.identity = "c1"
    await run(tmp_path, cluster, 5)
    before = (tmp_path / "info.json").read_bytes()
    with pytest.raises(ForeignDirectory, match="belongs to another cluster with the name 'tests'"):
        await run(tmp_path, other, 5, is_loss_expected=is_loss_expected)
    assert (tmp_path / "info.json").read_bytes() == before
    await run(tmp_path, cluster, 6)


async def test_partitions_keep_the_catalog_that_they_name(tmp_path):
    """Directories of earlier releases, and those of a cluster that had no identity yet, name the id of the cluster."""
    unknown, known = Cluster(), Cluster()
    unknown.identity = ""
    new, old = tmp_path / "new", tmp_path / "old"
    await run(new, known, 5)
    await run(old, unknown, 5)
    await run(old, known, 6)
    for path, catalog in ((new, "c0"), (old, "abc")):
        with open_directory(path) as directory:
            assert directory.catalog == catalog
            directory.claim("abc", "")
            with pytest.raises(ForeignDirectory, match="belongs to another cluster"):
                directory.claim("abc", "c1")


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        ({"product": "headrace", "format_version": 2}, "belongs to 'headrace'"),
        ({"product": "headrace-partition-node", "format_version": 99}, "has format 99"),
        ({"product": "headrace-partition-node", "format_version": 1, "surprise": 1}, "cannot be parsed"),
        ([], "cannot be parsed"),
    ],
)
def test_what_is_not_ours_is_left_alone(tmp_path, info, reason):
    (tmp_path / "info.json").write_text(json.dumps(info))
    with pytest.raises(ForeignDirectory, match=reason), open_directory(tmp_path):
        pass


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(ForeignDirectory, match=r"contains 'holiday\.jpg'"), open_directory(tmp_path):
        pass
    assert not (tmp_path / "info.json").exists()


def test_the_highest_version_is_remembered(tmp_path):
    with HighestVersion.opened(tmp_path) as highest:
        assert highest.value == 0
        for version in (1, 2, 3, 700):
            highest.raise_to(version)
        highest.raise_to(12)
        assert highest.value == 700
    with HighestVersion.opened(tmp_path) as highest:
        assert highest.value == 700


def test_a_write_that_the_power_cut_costs_no_earlier_version(tmp_path):
    with HighestVersion.opened(tmp_path) as highest:
        highest.raise_to(41)
        highest.raise_to(42)
    stored = (tmp_path / "catalogue_version").read_bytes()
    newest = stored.index(b"0000000042")
    (tmp_path / "catalogue_version").write_bytes(stored[:newest] + b"??????????" + stored[newest + 10 :])
    with HighestVersion.opened(tmp_path) as highest:
        assert highest.value == 41
        highest.raise_to(43)
    with HighestVersion.opened(tmp_path) as highest:
        assert highest.value == 43


def test_a_damaged_version_stops_the_start(tmp_path):
    (tmp_path / "catalogue_version").write_bytes(bytes(1024))
    with pytest.raises(ForeignDirectory, match="is damaged"), HighestVersion.opened(tmp_path):
        pass
