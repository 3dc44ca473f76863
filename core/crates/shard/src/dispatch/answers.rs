//! Encoding of partitions' answers as responses.

use headrace_buffer::Slice;
use headrace_link::Refusal;
use headrace_model::Namespace;
use headrace_partition::{PartitionError, Polled, ReadError, Response};
use headrace_wire::{
    Status,
    response::{Appended, ConsumerOffsetInfo, PolledHeader, ReadGap, StagedMessages},
};

use super::partitions::planned_range;
use crate::{
    calls::Sequence,
    meter::Meter,
    sessions::connection::{
        Pipeline, explained_response, nothing_polled, payload_response, status_response,
    },
};

/// Count messages that were appended, or returned to a consumer.
pub(crate) fn count_outcome(meter: &Meter, result: &Result<Response, Refusal>) {
    match result {
        Ok(Response::Appended { messages_count, .. }) => meter.appended(*messages_count),
        Ok(Response::Polled(polled)) => meter.polled(polled.messages_count, polled.size_bytes),
        _ => {}
    }
}

pub(crate) fn encode_partition_answer(
    pipeline: &mut Pipeline,
    sequence: Sequence,
    namespace: Namespace,
    result: Result<Response, Refusal>,
    explanation: Option<&str>,
) {
    pipeline.count(|meter| count_outcome(meter, &result));
    match result {
        Err(Refusal::NothingAssigned) => {
            let response = nothing_polled(pipeline.names_gaps(sequence));
            pipeline.answer_one(sequence, response);
        }
        Ok(Response::Appended { base_offset, .. }) if pipeline.reports_offsets() => {
            let appended = Appended {
                partition_id: namespace.partition().0,
                base_offset: base_offset.0,
            };
            pipeline.answer_one(sequence, payload_response(|out| appended.encode(out)));
        }
        Ok(
            Response::Appended { .. }
            | Response::Done
            | Response::Offset(None)
            | Response::BelowMinimum(_),
        ) => {
            pipeline.answer_one(sequence, status_response(Status::OK));
        }
        Ok(Response::Polled(polled)) => {
            let names_gaps = pipeline.names_gaps(sequence);
            pipeline.answer(sequence, polled_response(namespace, polled, names_gaps));
        }
        Ok(Response::Offset(Some(offset))) => {
            let info = ConsumerOffsetInfo {
                partition_id: namespace.partition().0,
                current_offset: offset.current.0,
                stored_offset: offset.stored.0,
            };
            pipeline.answer_one(sequence, payload_response(|out| info.encode(out)));
        }
        Ok(Response::Planned(plan)) => {
            let plan = planned_range(&plan);
            pipeline.answer_one(sequence, payload_response(|out| plan.encode(out)));
        }
        Ok(Response::Staged {
            stage,
            messages,
            bytes,
        }) => {
            let staged = StagedMessages {
                stage: stage.0,
                messages,
                bytes,
            };
            pipeline.answer_one(sequence, payload_response(|out| staged.encode(out)));
        }
        Err(refusal) => {
            let explanation = explanation.filter(|_| pipeline.explains());
            let response = explained_response(refusal_status(&refusal), explanation);
            pipeline.answer_one(sequence, response);
        }
    }
}

fn polled_response(namespace: Namespace, polled: Polled, names_gaps: bool) -> Vec<Slice> {
    let header = PolledHeader {
        partition_id: namespace.partition().0,
        current_offset: polled.current_offset.0,
        messages_count: polled.messages_count,
    };
    let head = if names_gaps {
        let gap = polled.gap.map_or_else(ReadGap::default, |gap| ReadGap {
            from: gap.from.0,
            to: gap.to.0,
        });
        let head = header.read_frame_head(gap, polled.size_bytes);
        head.map(|head| head.to_vec())
    } else {
        let head = header.frame_head(polled.size_bytes);
        head.map(|head| head.to_vec())
    };
    let head = head.expect("polls are limited far below 4 GiB");
    let mut slices = Vec::with_capacity(1 + polled.slices.len());
    slices.push(Slice::from_vec(head));
    slices.extend(polled.slices);
    slices
}

/// Return the status that a client gets for a refusal.
pub(crate) fn refusal_status(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::NotFound => Status::PARTITION_NOT_FOUND,
        Refusal::Elsewhere => Status::PARTITION_ELSEWHERE,
        Refusal::Unavailable => Status::PARTITION_UNAVAILABLE,
        Refusal::NothingAssigned | Refusal::NotOwner => Status::NOT_RESOLVED_CONSUMER,
        Refusal::NotReady => Status::TASK_TIMEOUT,
        Refusal::TopicFull => Status::TOPIC_FULL,
        Refusal::Partition(error) => match error {
            PartitionError::Busy
            | PartitionError::Read(ReadError::Busy | ReadError::TooLarge { .. }) => {
                Status::TASK_TIMEOUT
            }
            PartitionError::InvalidOffset { .. } => Status::INVALID_OFFSET,
            PartitionError::OffsetNotFound => Status::CONSUMER_OFFSET_NOT_FOUND,
            PartitionError::MalformedBatch | PartitionError::StageTooLarge => {
                Status::INVALID_MESSAGES_SIZE
            }
            PartitionError::Read(ReadError::Damaged { .. }) => Status::INVALID_MESSAGE_CHECKSUM,
            PartitionError::Read(ReadError::Storage { .. }) => Status::CANNOT_READ_MESSAGE,
            PartitionError::Remove { .. } => Status::CANNOT_DELETE_FILE,
            PartitionError::StageNotFound => Status::STAGE_NOT_FOUND,
            PartitionError::StageOutOfOrder { .. } => Status::INVALID_STAGE_CHUNK,
            PartitionError::StagesExhausted => Status::TOO_MANY_STAGES,
            PartitionError::TooManyConsumers => Status::TOO_MANY_CONSUMERS,
            PartitionError::OffsetOfAnotherUser => Status::UNAUTHORIZED,
            PartitionError::Store { .. } => Status::CANNOT_WRITE_TO_FILE,
            PartitionError::Failed(failure) if failure.readable => Status::CANNOT_WRITE_TO_FILE,
            PartitionError::Failed(_) => Status::CANNOT_READ_PARTITIONS,
            // Partitions close only on shutdown, or after they were removed from the catalog.
            PartitionError::Closed => Status::DISCONNECTED,
        },
    }
}
