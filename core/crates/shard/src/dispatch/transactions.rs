//! Transactions, and values pinned for readers: commands of the state machine, authorised here.

use std::sync::Arc;

use headrace_catalog::{Action, Stream};
use headrace_model::{StageId, StreamId, TopicId};
use headrace_proto::{
    control::v1::{GetTransaction, request},
    metadata::v1::{self as metadata, command::Operation},
};
use headrace_wire::{
    Identifier, Status, TransactionOutcome,
    command::{AbortTransaction, CommitTransaction, PinReader, RecordName, StagedAt},
    response::{ReaderPin, TransactionInfo, TransactionResult},
};

use super::{
    Context, Handled, Outcome,
    lookups::{NO_STREAM, NO_TOPIC},
};

impl Context<'_> {
    pub(super) fn commit_transaction(&self, request: &CommitTransaction<'_>) -> Handled {
        let stream = self.stream_of_stages(request.stream, &request.stages)?;
        let command = metadata::CommitTransaction {
            stream_id: stream.id.0,
            name: request.transaction.into(),
            query_id: request.query_id.into(),
            batch_id: request.batch_id,
            fence: request.fence,
            stages: by_partition(&request.stages),
            is_owned: true,
            own_only: !self.manages(stream),
        };
        Ok(self.propose_in(stream, Operation::CommitTransaction(command)))
    }

    pub(super) fn abort_transaction(&self, request: &AbortTransaction<'_>) -> Handled {
        let stream = self.stream_of_stages(request.stream, &request.stages)?;
        let command = metadata::AbortTransaction {
            stream_id: stream.id.0,
            name: request.transaction.into(),
            query_id: request.query_id.into(),
            batch_id: request.batch_id,
            stages: by_partition(&request.stages),
        };
        Ok(self.propose_in(stream, Operation::AbortTransaction(command)))
    }

    pub(super) fn get_transaction(&self, request: &RecordName<'_>) -> Handled {
        let stream = self.stream(request.stream, Action::ReadStream)?;
        Ok(Outcome::Control(request::Operation::GetTransaction(
            GetTransaction {
                stream_id: stream.id.0,
                name: request.name.into(),
            },
        )))
    }

    pub(super) fn delete_transaction(&self, request: &RecordName<'_>) -> Handled {
        let stream = self.stream(request.stream, Action::ManageStream)?;
        let command = metadata::DeleteTransaction {
            stream_id: stream.id.0,
            name: request.name.into(),
        };
        Ok(self.propose_in(stream, Operation::DeleteTransaction(command)))
    }

    pub(super) fn pin_reader(&self, request: &PinReader<'_>) -> Handled {
        let stream = self.stream_if_any(request.stream, Action::Poll)?;
        let command = metadata::PinReader {
            stream_id: stream.id.0,
            name: request.reader.into(),
            value: request.value.to_vec(),
            is_owned: true,
            // Who manages the stream deletes the pin of another user, and is not made to begin where that user chose.
            own_only: true,
        };
        Ok(self.propose_in(stream, Operation::PinReader(command)))
    }

    pub(super) fn unpin_reader(&self, request: &RecordName<'_>) -> Handled {
        let stream = self.stream_if_any(request.stream, Action::Poll)?;
        let command = metadata::UnpinReader {
            stream_id: stream.id.0,
            name: request.name.into(),
            own_only: !self.manages(stream),
        };
        Ok(self.propose_in(stream, Operation::UnpinReader(command)))
    }

    fn manages(&self, stream: &Stream) -> bool {
        self.allow(Action::ManageStream(stream.id)).is_ok()
    }

    /// Return a stream if the user may commit or abort these staged batches. That requires permission to send to all
    /// their topics; if the list is empty, to any topic of the stream.
    fn stream_of_stages(
        &self,
        identifier: Identifier<'_>,
        stages: &[StagedAt],
    ) -> Result<&Arc<Stream>, Status> {
        if stages.is_empty() {
            return self.stream_if_any(identifier, Action::Send);
        }
        let found = self.find_stream(identifier);
        let stream = found.map_or(NO_STREAM, |stream| stream.id);
        let mut topics: Vec<u32> = stages.iter().map(|stage| stage.topic_id).collect();
        topics.sort_unstable();
        topics.dedup();
        for topic in topics {
            self.allow(Action::Send(stream, TopicId(topic)))?;
        }
        found.ok_or(Status::STREAM_ID_NOT_FOUND)
    }

    /// Return a stream if the user may perform this action on any of its topics, or manage the stream.
    fn stream_if_any(
        &self,
        identifier: Identifier<'_>,
        action: impl Fn(StreamId, TopicId) -> Action,
    ) -> Result<&Arc<Stream>, Status> {
        let Some(stream) = self.find_stream(identifier) else {
            self.allow(action(NO_STREAM, NO_TOPIC))?;
            return Err(Status::STREAM_ID_NOT_FOUND);
        };
        let is_allowed =
            (stream.topics()).any(|topic| self.allow(action(stream.id, topic.id)).is_ok());
        if !is_allowed {
            self.allow(Action::ManageStream(stream.id))?;
        }
        Ok(stream)
    }
}

/// Group consecutive staged batches by partition.
fn by_partition(stages: &[StagedAt]) -> Vec<metadata::StagesOfPartition> {
    let place = |stage: &StagedAt| (stage.topic_id, stage.partition_id, stage.incarnation);
    let of_one = stages.chunk_by(|one, other| place(one) == place(other));
    of_one
        .map(|stages| metadata::StagesOfPartition {
            topic_id: stages[0].topic_id,
            partition_id: stages[0].partition_id,
            partition_incarnation: stages[0].incarnation,
            stage_ids: (stages.iter())
                .map(|stage| StageId(stage.stage).to_bytes().to_vec())
                .collect(),
        })
        .collect()
}

/// Encode the result of a commit or an abort.
pub(super) fn encode_result(result: &metadata::TransactionResult, out: &mut Vec<u8>) {
    let outcome = match result.outcome() {
        metadata::TransactionOutcome::AlreadyCommitted => TransactionOutcome::AlreadyCommitted,
        _ => TransactionOutcome::Applied,
    };
    let number = (result.transaction.as_ref()).map_or(0, |transaction| transaction.number);
    TransactionResult { outcome, number }.encode(out);
}

pub(super) fn encode_transaction(transaction: &metadata::Transaction, out: &mut Vec<u8>) {
    let info = TransactionInfo {
        query_id: &transaction.query_id,
        batch_id: transaction.batch_id,
        number: transaction.number,
        committed_at: transaction.committed_at_micros,
    };
    info.encode(out);
}

pub(super) fn encode_pin(result: &metadata::PinResult, out: &mut Vec<u8>) {
    let pinned = ReaderPin {
        already_pinned: result.was_there,
        value: result.pin.as_ref().map_or(&[], |pin| &pin.value),
    };
    pinned.encode(out);
}
