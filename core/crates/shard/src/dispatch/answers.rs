//! From a partition's answer to a response.

use headrace_buffer::Slice;
use headrace_model::Namespace;
use headrace_partition::{PartitionError, Polled, ReadError, Response};
use headrace_wire::{
    Status,
    response::{ConsumerOffsetInfo, PolledHeader},
};

use crate::{
    api::Refusal,
    connection::{Pipeline, Sequence, payload_response, status_response},
};

pub(crate) fn encode_partition_answer(
    pipeline: &mut Pipeline,
    sequence: Sequence,
    namespace: Namespace,
    result: Result<Response, Refusal>,
) {
    match result {
        Err(Refusal::NothingAssigned) => pipeline.answer_one(sequence, nothing_polled()),
        Ok(Response::Appended { messages_count, .. }) => {
            pipeline.count(|meter| meter.appended(messages_count));
            pipeline.answer_one(sequence, status_response(Status::OK));
        }
        Ok(Response::Done | Response::Offset(None) | Response::NotEnough(_)) => {
            pipeline.answer_one(sequence, status_response(Status::OK));
        }
        Ok(Response::Polled(polled)) => {
            pipeline.count(|meter| meter.polled(polled.messages_count, polled.size_bytes));
            pipeline.answer(sequence, polled_response(namespace, polled));
        }
        Ok(Response::Offset(Some(offset))) => {
            let info = ConsumerOffsetInfo {
                partition_id: namespace.partition().0,
                current_offset: offset.current.0,
                stored_offset: offset.stored.0,
            };
            pipeline.answer_one(sequence, payload_response(|out| info.encode(out)));
        }
        Err(refusal) => pipeline.answer_one(sequence, status_response(refusal_status(&refusal))),
    }
}

/// The answer to a member of a consumer group that has nothing to poll: all fields are 0.
pub(crate) fn nothing_polled() -> Slice {
    payload_response(|out| {
        let header = PolledHeader {
            partition_id: 0,
            current_offset: 0,
            messages_count: 0,
        };
        out.extend_from_slice(&header.to_bytes());
    })
}

fn polled_response(namespace: Namespace, polled: Polled) -> Vec<Slice> {
    let header = PolledHeader {
        partition_id: namespace.partition().0,
        current_offset: polled.current_offset.0,
        messages_count: polled.messages_count,
    };
    let head = header
        .frame_head(polled.size_bytes)
        .expect("polls are limited far below 4 GiB");
    let mut slices = Vec::with_capacity(1 + polled.slices.len());
    slices.push(Slice::from_vec(head.to_vec()));
    slices.extend(polled.slices);
    slices
}

fn refusal_status(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::NotFound => Status::PARTITION_NOT_FOUND,
        Refusal::NothingAssigned | Refusal::NotOwner => Status::NOT_RESOLVED_CONSUMER,
        Refusal::NotReady => Status::TASK_TIMEOUT,
        Refusal::Partition(error) => match error {
            PartitionError::Busy | PartitionError::Read(ReadError::Busy) => Status::TASK_TIMEOUT,
            PartitionError::InvalidOffset { .. } => Status::INVALID_OFFSET,
            PartitionError::OffsetNotFound => Status::CONSUMER_OFFSET_NOT_FOUND,
            PartitionError::MalformedBatch => Status::INVALID_MESSAGES_SIZE,
            PartitionError::Read(ReadError::Damaged { .. }) => Status::INVALID_MESSAGE_CHECKSUM,
            PartitionError::Read(ReadError::Storage { .. }) => Status::CANNOT_READ_MESSAGE,
            PartitionError::Remove { .. } => Status::CANNOT_DELETE_FILE,
            PartitionError::Failed(failure) if failure.readable => Status::CANNOT_WRITE_TO_FILE,
            PartitionError::Failed(_) => Status::CANNOT_READ_PARTITIONS,
            // Partitions close only when the server stops, or after they left the catalogue.
            PartitionError::Closed => Status::DISCONNECTED,
        },
    }
}
