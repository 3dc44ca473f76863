//! Batches that are sent at once, once, and each with an answer of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use headrace_wire::batch::BatchBuilder;
use headrace_wire::command::StageMessages;
use headrace_wire::message::HEADER_BYTES;
use headrace_wire::{Command, CommandCode, Partitioning};

use super::batches::{batch_frame, framed};
use super::{Place, PushRefused};
use crate::{OwnedIdentifier, Repeat, Request};

/// Messages for one topic that are sent together. Nothing is kept of them once they are sent, so that one connection
/// serves any number of topics.
#[derive(Debug)]
pub struct DirectBatch {
    partitions_count: u32,
    /// Partition of messages that may go anywhere.
    turn: u32,
    bytes_max: usize,
    bytes: usize,
    groups: BTreeMap<u32, BatchBuilder>,
}

/// Messages of one partition, in the order in which they were given.
#[derive(Debug)]
pub struct DirectGroup {
    /// The partition.
    pub partition: u32,
    /// Number of messages.
    pub messages_count: u32,
    /// The request. It is sent on the next connection only if it was not written completely.
    pub request: Request,
}

impl DirectBatch {
    /// Begin a batch of about `bytes_max` bytes; a single message may be larger. Messages that may go anywhere share
    /// the partition that `turn` selects.
    pub fn new(partitions_count: u32, turn: u32, bytes_max: usize) -> Self {
        Self {
            partitions_count,
            turn: turn.checked_rem(partitions_count).unwrap_or(0),
            bytes_max,
            bytes: 0,
            groups: BTreeMap::new(),
        }
    }

    /// Take a message. [`PushRefused::BufferFull`] if it belongs to the next batch. Arguments as of
    /// [`super::Producer::push`].
    pub fn push(
        &mut self,
        place: Place<'_>,
        id: u128,
        origin_timestamp: u64,
        payload: &[u8],
        headers: &[u8],
    ) -> Result<(), PushRefused> {
        let message_bytes = HEADER_BYTES + payload.len() + headers.len();
        if self.bytes > 0 && self.bytes + message_bytes > self.bytes_max {
            return Err(PushRefused::BufferFull);
        }
        let count = self.partitions_count;
        let partition = match place {
            Place::Partition(partition) => partition,
            Place::Key(key) => Partitioning::partition_for_key(key, count).unwrap_or(u32::MAX),
            Place::Balanced => self.turn,
        };
        if partition >= count {
            return Err(PushRefused::NoPartition {
                partition,
                partitions_count: count,
            });
        }
        let group = self.groups.entry(partition).or_default();
        let pushed = group.push(id, origin_timestamp, payload, headers);
        if group.is_empty() {
            self.groups.remove(&partition);
        }
        pushed.map_err(PushRefused::TooBig)?;
        self.bytes += message_bytes;
        Ok(())
    }

    /// Return one request for each partition, which stores its messages in a complete stage of their own. They are
    /// invisible until a transaction commits the stage, which the answer names.
    pub fn into_stages(
        self,
        stream: &OwnedIdentifier,
        topic: &OwnedIdentifier,
        timeout: Duration,
        lifetime_seconds: u32,
    ) -> Vec<DirectGroup> {
        let groups = self.groups.into_iter();
        let requests = groups.map(|(partition, batch)| DirectGroup {
            partition,
            messages_count: batch.messages_count(),
            request: Request {
                code: CommandCode::StageMessages.code(),
                frame: framed(stream, topic, partition, batch, |batch| {
                    Command::StageMessages(StageMessages {
                        stage: 0,
                        lifetime_seconds,
                        chunk: 0,
                        is_last: true,
                        batch,
                    })
                }),
                repeat: Repeat::IfUnsent,
                timeout: Some(timeout),
            },
        });
        requests.collect()
    }

    /// Return one request for each partition.
    pub fn into_groups(
        self,
        stream: &OwnedIdentifier,
        topic: &OwnedIdentifier,
        timeout: Duration,
    ) -> Vec<DirectGroup> {
        let groups = self.groups.into_iter();
        let requests = groups.map(|(partition, batch)| DirectGroup {
            partition,
            messages_count: batch.messages_count(),
            request: Request {
                code: CommandCode::SendMessages.code(),
                frame: batch_frame(stream, topic, partition, batch),
                repeat: Repeat::IfUnsent,
                timeout: Some(timeout),
            },
        });
        requests.collect()
    }
}

#[cfg(test)]
mod tests {
    use headrace_wire::frame::REQUEST_HEADER_BYTES;

    use super::*;

    fn names() -> (OwnedIdentifier, OwnedIdentifier) {
        let named = |name| OwnedIdentifier::named(name).expect("a name");
        (named("shop"), named("orders"))
    }

    #[test]
    fn a_stage_is_complete_and_has_the_messages_of_one_partition() {
        let mut batch = DirectBatch::new(2, 0, 1 << 20);
        for (partition, payload) in [(1, b"a"), (0, b"b"), (1, b"c")] {
            batch
                .push(Place::Partition(partition), 7, 1, payload, &[])
                .expect("there is room");
        }
        let (stream, topic) = names();
        let groups = batch.into_stages(&stream, &topic, Duration::from_secs(1), 60);
        let counts: Vec<_> = groups.iter().map(|group| group.messages_count).collect();
        assert_eq!(counts, [1, 2]);
        let frame = groups.last().expect("a group").request.frame.concat();
        let payload = &frame[REQUEST_HEADER_BYTES..];
        let command = Command::decode(CommandCode::StageMessages.code(), payload);
        let Ok(Command::StageMessages(staged)) = command else {
            panic!("{command:?}");
        };
        assert_eq!((staged.stage, staged.lifetime_seconds), (0, 60));
        assert_eq!((staged.chunk, staged.is_last), (0, true));
        assert_eq!(staged.batch.partitioning, Partitioning::PartitionId(1));
        assert_eq!(staged.batch.messages_count, 2);
        assert!(staged.batch.messages.ends_with(b"c"));
    }

    #[test]
    fn messages_are_grouped_by_partition_in_their_order() {
        let mut batch = DirectBatch::new(4, 6, 1 << 20);
        for (place, payload) in [
            (Place::Partition(3), b"a"),
            (Place::Balanced, b"b"),
            (Place::Key(b"customer-7"), b"c"),
            (Place::Partition(3), b"d"),
        ] {
            batch
                .push(place, 0, 1, payload, &[])
                .expect("there is room");
        }
        let (stream, topic) = names();
        let groups = batch.into_groups(&stream, &topic, Duration::from_secs(1));
        let of_key = Partitioning::partition_for_key(b"customer-7", 4).expect("partitions");
        let mut expected = BTreeMap::from([(3, 2), (2, 1)]);
        *expected.entry(of_key).or_default() += 1;
        let found: Vec<_> = (groups.iter())
            .map(|group| (group.partition, group.messages_count))
            .collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        let last = groups.last().expect("a group");
        let messages = &last.request.frame[2];
        let place = |byte| messages.iter().rposition(|found| *found == byte);
        assert!(place(b'a') < place(b'd'));
        assert!(
            groups
                .iter()
                .all(|group| group.request.repeat == Repeat::IfUnsent)
        );
    }

    #[test]
    fn a_full_batch_and_a_missing_partition_are_reported() {
        let mut batch = DirectBatch::new(1, 0, 100);
        let mut push = |place, payload: &[u8]| batch.push(place, 0, 1, payload, &[]);
        assert_eq!(push(Place::Balanced, &[0; 500]), Ok(()));
        assert_eq!(push(Place::Balanced, b"x"), Err(PushRefused::BufferFull));
        let mut batch = DirectBatch::new(2, 0, 100);
        let missing = PushRefused::NoPartition {
            partition: 2,
            partitions_count: 2,
        };
        assert_eq!(
            batch.push(Place::Partition(2), 0, 1, b"x", &[]),
            Err(missing)
        );
        let (stream, topic) = names();
        assert!(
            batch
                .into_groups(&stream, &topic, Duration::ZERO)
                .is_empty()
        );
    }
}
