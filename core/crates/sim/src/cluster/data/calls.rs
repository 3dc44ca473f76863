//! Calls of clients: the frames that they send, and what an answer says about the partition.

use headrace_model::Durability;
use headrace_wire::batch::BatchBuilder;
use headrace_wire::command::{
    ConsumerOffsetPath, FlushUnsavedBuffer, PollMessages, StoreConsumerOffset,
};
use headrace_wire::response::{Appended, ConsumerOffsetInfo, Polled};
use headrace_wire::{
    Command, Consumer, ConsumerKind, Identifier, Partitioning, PollingStrategy, Status,
};

use super::client::{Action, Call, Verdict};
use super::{Cluster, Data, Partition};
use crate::checker::{BatchNumber, Check, End, ReadMessage, Violation};

/// Bytes of a payload that name the message.
const NAME_BYTES: usize = 8;

/// Payload of a message, which names it.
fn payload(batch: BatchNumber, index: u32, bytes: usize) -> Vec<u8> {
    let mut payload = Vec::with_capacity(bytes.max(NAME_BYTES));
    payload.extend_from_slice(&batch.to_le_bytes());
    payload.extend_from_slice(&index.to_le_bytes());
    let filler = batch.wrapping_mul(31).wrapping_add(index).to_le_bytes()[0];
    payload.resize(bytes.max(NAME_BYTES), filler);
    payload
}

/// Frame of a call.
pub(super) fn frame(partition: &Partition, client: u8, action: &Action) -> Vec<u8> {
    let namespace = partition.namespace;
    let (stream, topic) = (
        Identifier::Numeric(namespace.stream().0),
        Identifier::Numeric(namespace.topic().0),
    );
    let partition_id = namespace.partition().0;
    let consumer = Consumer {
        kind: ConsumerKind::Consumer,
        id: Identifier::Numeric(u32::from(client) + 1),
    };
    let path = ConsumerOffsetPath {
        consumer,
        stream,
        topic,
        partition_id: Some(partition_id),
    };
    let mut batch = BatchBuilder::new();
    let command = match *action {
        Action::Send {
            batch: number,
            count,
            bytes,
        } => {
            for index in 0..count {
                let payload = payload(number, index, bytes);
                batch.push(0, 1, &payload, &[]).expect("a small message");
            }
            let partitioning = Partitioning::PartitionId(partition_id);
            Command::SendMessages(batch.request(stream, topic, partitioning))
        }
        Action::Poll {
            from,
            count,
            stores,
        } => Command::PollMessages(PollMessages {
            consumer,
            stream,
            topic,
            partition_id: Some(partition_id),
            strategy: PollingStrategy::Offset(from),
            count,
            auto_commit: stores.is_some(),
        }),
        Action::Store { offset, .. } => {
            Command::StoreConsumerOffset(StoreConsumerOffset { path, offset })
        }
        Action::Get => Command::GetConsumerOffset(path),
        Action::Flush { is_synced } => Command::FlushUnsavedBuffer(FlushUnsavedBuffer {
            stream,
            topic,
            partition_id,
            fsync: is_synced,
        }),
    };
    let mut frame = Vec::new();
    command.try_encode_frame(&mut frame).expect("a small frame");
    frame
}

/// Frame that asks for the offsets of appended batches.
pub(super) fn greeting() -> Vec<u8> {
    let mut frame = Vec::new();
    let command = Command::ReportOffsets;
    command.try_encode_frame(&mut frame).expect("a small frame");
    frame
}

/// Messages of a poll, each of which must be whole and one that was sent.
fn messages_of(polled: &Polled<'_>) -> Result<Vec<ReadMessage>, Violation> {
    let wrong = |what: String| Violation::new(Check::Agreement, what);
    polled
        .check()
        .map_err(|error| wrong(format!("a poll returns broken messages: {error:?}")))?;
    let messages = polled.messages().map(|message| {
        let message = message.map_err(|error| wrong(format!("a broken message: {error:?}")))?;
        let (offset, bytes) = (message.header().offset(), message.payload());
        let name = bytes.first_chunk::<NAME_BYTES>();
        let [first, second] = name
            .map(|name| [0, 4].map(|at| [name[at], name[at + 1], name[at + 2], name[at + 3]]))
            .ok_or_else(|| wrong(format!("message {offset} has no name")))?;
        let (batch, index) = (u32::from_le_bytes(first), u32::from_le_bytes(second));
        if !message.checksum_matches() || bytes != payload(batch, index, bytes.len()) {
            return Err(wrong(format!("message {offset} is damaged, and is served")));
        }
        Ok(ReadMessage {
            offset,
            batch,
            index,
            digest: headrace_wire::message::checksum(message.bytes()),
        })
    });
    messages.collect()
}

impl Cluster<Data> {
    /// Check an answer, and record what it says.
    pub(super) fn judge(
        &mut self,
        client: u8,
        call: &Call,
        (status, payload): (Status, &[u8]),
        life: usize,
    ) -> Result<Verdict, Violation> {
        let now_ns = self.now_ns();
        let partition = &mut self.group.partitions[call.partition];
        let stored = &mut partition.stored[usize::from(client)];
        let messages = &mut partition.messages;
        if !status.is_ok() {
            if let Action::Store { number, .. } = call.action
                && status == Status::INVALID_OFFSET
            {
                stored.refused(number);
            }
            if status == Status::INVALID_MESSAGE_CHECKSUM {
                let from = match call.action {
                    Action::Poll { from, .. } => from,
                    _ => u64::MAX,
                };
                messages.damage_reported(from)?;
                self.tally.add("reads refused because of damage");
                return Ok(Verdict::Damaged);
            }
            self.tally.add("calls refused");
            return Ok(Verdict::Refused);
        }
        let broken = |what: &str| Violation::new(Check::Agreement, what.to_owned());
        match call.action {
            Action::Send { batch, .. } => {
                let appended =
                    Appended::decode(payload).map_err(|_| broken("a broken answer to a batch"))?;
                messages.acknowledged(batch, appended.base_offset, (life, now_ns))?;
                self.tally.add("batches acknowledged");
            }
            Action::Poll {
                from,
                stores: change,
                ..
            } => {
                let polled =
                    Polled::decode(payload).map_err(|_| broken("a broken answer to a poll"))?;
                let read = messages_of(&polled)?;
                messages.read(from, &read, (call.sent_ns, life, now_ns))?;
                self.tally.add_many("messages read", read.len() as u64);
                let (last, current) = (read.last(), polled.header.current_offset);
                if last.is_some_and(|last| last.offset > current) {
                    return Err(broken("a message behind the end is served"));
                }
                if let Some(number) = change {
                    // It does not wait for a sync.
                    let survives = match messages.level() {
                        Durability::Memory => None,
                        Durability::Os | Durability::Fsync => Some(End::Kill),
                    };
                    stored.polled(number, last.map(|last| last.offset), survives, life);
                }
                return Ok(Verdict::Done(Some((
                    last.map_or(u64::MAX, |last| last.offset),
                    current,
                ))));
            }
            Action::Store { offset, number } => {
                if offset >= messages.sent_count() {
                    return Err(Violation::new(
                        Check::Progress,
                        format!("offset {offset} behind the end is stored"),
                    ));
                }
                let survives = match messages.level() {
                    Durability::Memory => None,
                    Durability::Os => Some(End::Kill),
                    Durability::Fsync => Some(End::Power),
                };
                stored.succeeded(number, Some(offset), survives, life);
                self.tally.add("offsets stored");
            }
            Action::Get => {
                let found = if payload.is_empty() {
                    None
                } else {
                    let info = ConsumerOffsetInfo::decode(payload)
                        .map_err(|_| broken("a broken answer about a stored offset"))?;
                    Some((info.stored_offset, info.current_offset))
                };
                stored.found(found.map(|it| it.0), found.map(|it| it.1))?;
                self.tally.add("stored offsets found");
            }
            Action::Flush { is_synced } => {
                messages.flushed(is_synced, call.sent_ns);
                self.tally.add("flushes");
            }
        }
        Ok(Verdict::Done(None))
    }
}
