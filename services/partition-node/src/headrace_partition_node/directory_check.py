"""Check that data directory and cluster belong together, before either acts on the other.

The shards delete partitions that are missing in the catalog. Therefore the catalog of another cluster must never reach
them; nor may empty partitions be offered in place of those that this node had.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from headrace_metadata_client import MetadataUnreachableError, Reads
from headrace_partition_node.data_directory import DataDirectory
from headrace_partition_node.errors import AnotherCluster, DataLost
from headrace_proto.metadata.v1 import NodeRecord

_PAUSE_SECONDS: Final = 0.5

_log = logging.getLogger(__name__)


async def check(
    reads: Reads, directory: DataDirectory, *, node_name: str, highest_version: int, is_loss_expected: bool
) -> None:
    """Compare the records of directory and cluster; waits for the metadata service.

    Args:
        reads: Queries to the metadata service.
        directory: Data directory of this node.
        node_name: Name of this node.
        highest_version: Newest catalog version ever used here.
        is_loss_expected: The operator knows that this is not the node's former directory.

    Raises:
        UnauthenticatedError: The metadata service does not accept the caller.
        ForeignDirectory: The directory belongs to another cluster.
        AnotherCluster: The metadata service is older than the directory's state.
        DataLost: The directory is not the one that the node had.
    """
    cluster, version, node = await _known(reads, node_name)
    await asyncio.to_thread(directory.claim, *cluster)
    if version < highest_version:
        raise AnotherCluster(
            f"the newest catalog of the metadata service has version {version}, and {directory.path} has followed one "
            f"up to version {highest_version}: it is another cluster of the same name, or it has lost its data. "
            "Nothing was changed. Check cluster.metadata, or use another directory (system.path)"
        )
    if node is not None:
        await asyncio.to_thread(directory.found, node.node.incarnation)
    if is_loss_expected:
        return
    advice = (
        "Use the former data directory of this node (system.path), or another node.name; node.expect_loss = true "
        "accepts the loss of what is not in this directory"
    )
    if node is None:
        if directory.was_registered:
            raise DataLost(
                f"{directory.path} was used by node {node_name!r}, which the cluster no longer knows: it was "
                "removed, or this is another cluster of the same name. Use an empty directory (system.path); "
                "node.expect_loss = true uses this one, and removes from it what the cluster does not know"
            )
    elif directory.was_registered:
        if not directory.is_of(node.node.incarnation):
            raise DataLost(
                f"node {node_name!r} has run with another data directory since it used {directory.path}, or this is "
                f"another cluster of the same name. {advice}"
            )
    elif not directory.is_of(node.node.incarnation) and (count := node.replicas_count + node.leaving_count):
        raise DataLost(
            f"the cluster expects {count} partitions on node {node_name!r}, and {directory.path} is new. {advice}"
        )


async def _known(reads: Reads, node_name: str) -> tuple[tuple[str, str], int, NodeRecord | None]:
    """Return the cluster id with the identity of the catalog, its newest version, and the record of this node."""
    while True:
        try:
            # Linearizable, so that a lagging replica is not mistaken for a cluster that has lost its data.
            version = await reads.version()
            catalog = await reads.catalog_identity()
            nodes = await reads.nodes()
        except MetadataUnreachableError as error:
            _log.warning("waiting for the metadata service: %s", error)
        else:
            node = next((record for record in nodes if record.node.name == node_name), None)
            for status in await reads.statuses():
                if status is not None and status.cluster_id:
                    return (status.cluster_id, catalog), version, node
        await asyncio.sleep(_PAUSE_SECONDS)
