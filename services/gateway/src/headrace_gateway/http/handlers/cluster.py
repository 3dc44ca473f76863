"""State of the cluster."""

from __future__ import annotations

from headrace_gateway.http.call import Call
from headrace_gateway.http.models.cluster import ClusterStateAnswer, cluster_state
from headrace_gateway.http.routes import Nothing, Routes

routes = Routes()


@routes.add("GET", "/cluster", tag="system", answer=ClusterStateAnswer, errors=(403,))
async def get_cluster(call: Call[Nothing, Nothing]) -> ClusterStateAnswer:
    """The cluster as this process sees it: itself, the partition nodes, and the replicas of the metadata service.

    Other gateways are not known here. Needs the permission to read the server.
    """
    await call.may_read_server()
    return cluster_state(await call.services.cluster())
