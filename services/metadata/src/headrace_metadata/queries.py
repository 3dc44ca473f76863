"""Queries of the applied state."""

from __future__ import annotations

from headrace_metadata.applied_state import AppliedState, Credentials
from headrace_proto.metadata.v1 import (
    AccessTokenRecord,
    CredentialsQuery,
    CredentialsRecord,
    NodesRecord,
    ReadRequest,
    ReadResponse,
    StreamQuery,
    StreamRecord,
)


def answer(state: AppliedState, request: ReadRequest) -> ReadResponse | None:  # noqa: PLR0912  (a table)
    """Answer a query; ``None`` if this release does not know it."""
    response = ReadResponse(version=state.version)
    match request.WhichOneof("query"):
        case "catalog":
            response.catalog.CopyFrom(state.catalog())
        case "stream":
            stream = _stream(state, request.stream)
            if stream is not None:
                response.stream.CopyFrom(stream)
        case "credentials":
            credentials = _credentials(state, request.credentials)
            if credentials is not None:
                response.credentials.CopyFrom(_record(credentials))
        case "access_token":
            token = state.access_token(request.access_token.digest)
            if token is not None:
                response.access_token.CopyFrom(
                    AccessTokenRecord(
                        user_id=token.user_id,
                        digest=token.digest,
                        expires_at_micros=token.expires_at_micros,
                        is_active=token.is_active,
                        name=token.name,
                        incarnation=token.incarnation,
                    )
                )
        case "nodes":
            response.nodes.CopyFrom(NodesRecord(nodes=state.nodes()))
        case "placement":
            placement = state.placement(request.placement.stream_id, request.placement.topic_id)
            if placement is not None:
                response.placement.CopyFrom(placement)
        case "transaction":
            transaction = state.transaction(request.transaction.stream_id, request.transaction.name)
            if transaction is not None:
                response.transaction.CopyFrom(transaction)
        case "version":
            response.catalog_identity = state.catalog_identity()
        case _:
            return None
    return response


def _stream(state: AppliedState, query: StreamQuery) -> StreamRecord | None:
    stream_id = query.id if query.HasField("id") else state.stream_id_named(query.name)
    found = state.stream_with_topics(stream_id) if stream_id is not None else None
    return StreamRecord(stream=found[0], topics=found[1]) if found is not None else None


def _credentials(state: AppliedState, query: CredentialsQuery) -> Credentials | None:
    if query.HasField("user_id"):
        return state.credentials_of(query.user_id)
    return state.credentials_named(query.username)


def _record(credentials: Credentials) -> CredentialsRecord:
    return CredentialsRecord(
        user_id=credentials.user_id,
        username=credentials.username,
        password_hash=credentials.password_hash,
        is_active=credentials.is_active,
        password_version=credentials.password_version,
    )
