"""``headrace.partition.v1.Partition``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from grpc import aio

from headrace_chassis.grpc.places import Places
from headrace_chassis.grpc.server import starts_of_calls
from headrace_chassis.grpc.status import Refused
from headrace_chassis.places import address_of, place_of
from headrace_chassis.shares import Shares
from headrace_chassis.starts import Starts
from headrace_partition_node.grpc.appending import Appending
from headrace_partition_node.grpc.errors import refuse
from headrace_partition_node.grpc.fetching import Fetching
from headrace_partition_node.grpc.frames import Batch, Chunk, decoded, decoded_staged, encoded
from headrace_partition_node.grpc.shard_requests import Shards
from headrace_partition_node.grpc.staging import Staging
from headrace_partition_node.grpc.tickets import Access, Tickets, user_of
from headrace_proto.errors import Status
from headrace_proto.partition.v1 import (
    AppendResponse,
    DrainRequest,
    DrainResponse,
    FetchRequest,
    GetOffsetsRequest,
    GetOffsetsResponse,
    GetStatisticsRequest,
    GetStatisticsResponse,
    PartitionOffsets,
    PartitionStatistics,
    Place,
    PlanRangeRequest,
    PlanRangeResponse,
    RangePart,
    StageResponse,
    partition_pb2,
)

SERVICE: Final[ServiceDescriptor] = partition_pb2.DESCRIPTOR.services_by_name["Partition"]

_PARTITIONS_MAX: Final = 1000
_TOPICS_MAX: Final = 100
# Requests without a batch are small, and arrive soon.
_REQUEST_BYTES_MAX: Final = 64 * 1024
_REQUEST_SECONDS: Final = 20.0

_Context = aio.ServicerContext[Any, Any]
_Request = TypeVar("_Request")
_Asked = TypeVar("_Asked", bound=Message)
_Response = TypeVar("_Response")


class ThisNode(Protocol):
    """Interface of calls to the node itself."""

    def statistics(self) -> GetStatisticsResponse:
        """Return the statistics of the node, without partitions."""

    async def drain(self, *, is_draining: bool) -> None:
        """Exclude this node from new placements, or include it again.

        Raises:
            Refused: The cluster refuses the change.
        """


class PartitionService:
    """Answers calls from the shards of this process."""

    def __init__(
        self,
        node: ThisNode | None,
        shards: Shards,
        tickets: Tickets,
        fetching: Fetching,
        appending: Appending,
        staging: Staging,
        calls: Shares,
        places: Places,
    ) -> None:
        """Configure the service.

        Args:
            node: The node as part of a cluster; None: not part of a cluster, and without calls about it.
            shards: Source of messages.
            tickets: Checks tickets.
            fetching: Answers `Fetch`.
            appending: Answers `Append`.
            staging: Answers `Stage`.
            calls: Places of concurrent calls.
            places: Places of connections, which users keep.
        """
        self._node = node
        self._shards = shards
        self._tickets = tickets
        self._fetching = fetching
        self._appending = appending
        self._staging = staging
        self._calls = calls
        self.places = places
        """Places of connections."""
        self.starts = starts_of_calls()
        """Turns in which calls start."""
        # Responses of streams, whose calls have started.
        self._steps = Starts()

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return the handlers for a gRPC server."""
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Fetch": grpc.stream_stream_rpc_method_handler(self._fetch, FetchRequest.FromString, encoded),
            "Append": grpc.stream_stream_rpc_method_handler(self._append, decoded, AppendResponse.SerializeToString),
            "Stage": grpc.stream_unary_rpc_method_handler(self._stage, decoded_staged, StageResponse.SerializeToString),
            "GetOffsets": self._unary(self._offsets, GetOffsetsRequest),
            "PlanRange": self._unary(self._plan, PlanRangeRequest),
        }
        if self._node is not None:
            handlers["GetStatistics"] = self._unary(partial(self._statistics, self._node), GetStatisticsRequest)
            handlers["Drain"] = self._unary(partial(self._drain, self._node), DrainRequest)
        return grpc.method_handlers_generic_handler(SERVICE.full_name, handlers)

    def _unary(
        self, answer: Callable[[_Asked, _Context], Awaitable[Message]], request_type: type[_Asked]
    ) -> grpc.RpcMethodHandler[Any, Any]:
        async def answered(encoded: AsyncIterator[bytes], context: _Context) -> Message:
            # Nothing is received from callers without a ticket; for this reason unary calls are served as streams, too.
            self._tickets.shown(context)
            return await answer(await _one(encoded, request_type), context)

        async def handle(encoded: AsyncIterator[bytes], context: _Context) -> None:
            response = await self._answered(answered, encoded, context)
            await context.write(response.SerializeToString())

        return grpc.stream_stream_rpc_method_handler(handle)

    async def _fetch(self, requests: AsyncIterator[FetchRequest], context: _Context) -> AsyncIterator[Chunk]:
        async for chunk in self._streamed(self._fetching.responses, requests, context):
            yield chunk

    async def _append(self, requests: AsyncIterator[Batch], context: _Context) -> AsyncIterator[AppendResponse]:
        async for response in self._streamed(self._appending.responses, requests, context):
            yield response

    async def _stage(self, requests: AsyncIterator[Batch], context: _Context) -> StageResponse:
        return await self._answered(self._staging.response, requests, context)

    async def _offsets(self, request: GetOffsetsRequest, context: _Context) -> GetOffsetsResponse:
        ticket, stream_id, topic_id = self._tickets.shown(context), request.stream_id, request.topic_id
        if not 1 <= len(request.partition_ids) <= _PARTITIONS_MAX:
            raise Refused(Status.INVALID_COMMAND, f"partition_ids must have 1 to {_PARTITIONS_MAX} ids")
        here = {
            partition_id: self._tickets.opened(ticket, Access.READ, stream_id, topic_id, partition_id)
            for partition_id in request.partition_ids
        }
        ends = await self._shards.ends(stream_id, topic_id, here)
        found: dict[int, int] = {}
        if request.HasField("timestamp_micros"):
            for partition_id in here:
                offset = await self._shards.offset_of(stream_id, topic_id, partition_id, request.timestamp_micros)
                # Neither messages appended since nor the new end are counted.
                end = ends[partition_id].next_offset
                found[partition_id] = min(offset, end) if offset is not None else end
        for place in here.values():
            self._tickets.check_again(place)
        return GetOffsetsResponse(
            partitions=[
                PartitionOffsets(partition_id=number, offset_of_timestamp=found.get(number), **ends[number]._asdict())
                for number in request.partition_ids
            ]
        )

    async def _plan(self, request: PlanRangeRequest, context: _Context) -> PlanRangeResponse:
        ticket, place = self._tickets.shown(context), request.place
        covered = self._tickets.opened(
            ticket, Access.READ, place.stream_id, place.topic_id, place.partition_id, place.incarnation
        )
        end = request.end_offset if request.HasField("end_offset") else None
        planned = await self._shards.planned(covered, request.start_offset, end, request.target_bytes)
        self._tickets.check_unchanged(covered)
        return PlanRangeResponse(
            incarnation=covered.incarnation,
            purge_epoch=covered.purge_epoch,
            first_offset=planned.first_offset,
            next_offset=planned.next_offset,
            parts=[RangePart(start_offset=offset, size_bytes=size) for offset, size in planned.splits],
        )

    async def _statistics(
        self, node: ThisNode, request: GetStatisticsRequest, context: _Context
    ) -> GetStatisticsResponse:
        self._tickets.for_everything(context)
        if len(request.topics) > _TOPICS_MAX:
            raise Refused(Status.INVALID_COMMAND, f"topics must have at most {_TOPICS_MAX} entries")
        response = node.statistics()
        for topic in sorted({(key.stream_id, key.topic_id) for key in request.topics}):
            for partition in await self._shards.partitions(*topic):
                found = self._tickets.found(*topic, partition.id)
                if found is not None and found.is_here:
                    response.partitions.append(
                        PartitionStatistics(
                            place=Place(
                                stream_id=topic[0],
                                topic_id=topic[1],
                                partition_id=partition.id,
                                incarnation=found.incarnation,
                            ),
                            messages_count=partition.messages_count,
                            size_bytes=partition.size_bytes,
                            segments_count=partition.segments_count,
                            current_offset=partition.current_offset,
                        )
                    )
        return response

    async def _drain(self, node: ThisNode, request: DrainRequest, context: _Context) -> DrainResponse:
        self._tickets.for_everything(context)
        await node.drain(is_draining=request.is_draining)
        return DrainResponse()

    async def _begun(self, context: _Context) -> int | None:
        """Count a new call; return its user.

        Raises:
            Refused: It has no valid ticket, or the user has all the places that he may have.
        """
        try:
            user = user_of(self._tickets.shown(context))
        except Refused:
            await self.starts.take(place_of(address_of(context.peer())[0]))
            raise
        self.places.has_logged_in(context.peer(), user)
        if not self._calls.take(user):
            raise Refused(Status.TOO_MANY_WAITS, "too many calls are in progress")
        return user

    async def _answered(
        self,
        answer: Callable[[_Request, _Context], Awaitable[_Response]],
        request: _Request,
        context: _Context,
    ) -> _Response:
        try:
            user = await self._begun(context)
        except Refused as error:
            await refuse(context, error)
        try:
            await self.starts.take(user)
            return await answer(request, context)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this call only
            await refuse(context, error)
        finally:
            self._calls.give_back(user)

    async def _streamed(
        self,
        answers: Callable[[AsyncIterator[_Request], _Context], AsyncGenerator[_Response, None]],
        requests: AsyncIterator[_Request],
        context: _Context,
    ) -> AsyncGenerator[_Response, None]:
        try:
            user = await self._begun(context)
        except Refused as error:
            await refuse(context, error)
        responses = answers(requests, context)
        try:
            await self.starts.take(user)
            async for response in responses:
                await self._steps.take(user)
                yield response
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this call only
            await refuse(context, error)
        finally:
            self._calls.give_back(user)
            await responses.aclose()


async def _one(encoded: AsyncIterator[bytes], request_type: type[_Asked]) -> _Asked:
    try:
        async with asyncio.timeout(_REQUEST_SECONDS):
            one = await anext(encoded, None)
    except TimeoutError:
        raise Refused(Status.INVALID_FORMAT, f"no request has arrived within {_REQUEST_SECONDS:g} s") from None
    if one is None:
        raise Refused(Status.INVALID_FORMAT, "the call carries no request")
    if len(one) > _REQUEST_BYTES_MAX:
        raise Refused(Status.INVALID_FORMAT, f"a request other than a batch has {_REQUEST_BYTES_MAX} bytes at most")
    try:
        return request_type.FromString(one)
    except DecodeError as error:
        raise Refused(Status.INVALID_FORMAT, f"the request is not a {request_type.DESCRIPTOR.full_name}") from error
