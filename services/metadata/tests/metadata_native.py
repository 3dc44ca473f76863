"""Real native replicas for tests."""

import headrace_core
from headrace_metadata.config import ClusterSettings, ReplicaTlsSettings, StateSettings
from headrace_metadata.native import ReplicaDescription


def alone(directory, **state):
    """Return a single replica without peers."""
    description = ReplicaDescription(
        directory=directory, cluster=ClusterSettings(), state=StateSettings(**state), tls=ReplicaTlsSettings()
    )
    return headrace_core.MetadataReplica(description.document())
