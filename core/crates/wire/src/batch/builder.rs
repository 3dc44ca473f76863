//! Client side: build the body of a `SendMessages` from messages.

use alloc::vec::Vec;

use headrace_model::limits::{PAYLOAD_SIZE_BYTES_MAX, USER_HEADERS_SIZE_BYTES_MAX};

use super::INDEX_BYTES;
use crate::message::{HEADER_BYTES, HeaderMut};
use crate::{Identifier, Partitioning, SendMessages};

/// Reason why a message cannot be added to the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The payload exceeds the limit of every server, in whatever batch.
    #[error("the payload is {size_bytes} B, limit {PAYLOAD_SIZE_BYTES_MAX} B")]
    PayloadTooBig {
        /// Bytes of the payload.
        size_bytes: usize,
    },
    /// The user headers exceed the limit of every server, in whatever batch.
    #[error("the user headers are {size_bytes} B, limit {USER_HEADERS_SIZE_BYTES_MAX} B")]
    UserHeadersTooBig {
        /// Bytes of the user headers.
        size_bytes: usize,
    },
    /// The frame would exceed its 32-bit length. Send the batch and start another.
    #[error("a batch fits one frame of less than 4 GiB")]
    BatchFull,
}

/// Builder of one `SendMessages`.
///
/// The memory is kept over [`Self::clear`], so that a producer allocates once.
#[derive(Debug, Clone, Default)]
pub struct BatchBuilder {
    indexes: Vec<u8>,
    messages: Vec<u8>,
}

impl BatchBuilder {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with capacity for `messages_count` messages with a total of `messages_bytes`, headers included.
    pub fn with_capacity(messages_count: usize, messages_bytes: usize) -> Self {
        Self {
            indexes: Vec::with_capacity(messages_count.saturating_mul(INDEX_BYTES)),
            messages: Vec::with_capacity(messages_bytes),
        }
    }

    /// An empty batch in the memory of an earlier one: what [`Self::into_parts`] has returned, whatever it holds.
    pub fn from_parts(mut indexes: Vec<u8>, mut messages: Vec<u8>) -> Self {
        indexes.clear();
        messages.clear();
        Self { indexes, messages }
    }

    /// Append a message.
    ///
    /// `id` 0 leaves the id to the server; `origin_timestamp` is in microseconds since the Unix epoch; `user_headers`
    /// are already encoded. An empty payload is accepted by this and the reference server, but refused by official
    /// clients. On failure the batch is unchanged.
    pub fn push(
        &mut self,
        id: u128,
        origin_timestamp: u64,
        payload: &[u8],
        user_headers: &[u8],
    ) -> Result<(), PushError> {
        let payload_length =
            length(payload, PAYLOAD_SIZE_BYTES_MAX).ok_or(PushError::PayloadTooBig {
                size_bytes: payload.len(),
            })?;
        let user_headers_length = length(user_headers, USER_HEADERS_SIZE_BYTES_MAX).ok_or(
            PushError::UserHeadersTooBig {
                size_bytes: user_headers.len(),
            },
        )?;
        let message_bytes = HEADER_BYTES + payload.len() + user_headers.len();
        let position = next_position(self.indexes.len(), self.messages.len(), message_bytes)
            .ok_or(PushError::BatchFull)?;

        let mut header = [0; HEADER_BYTES];
        let mut fields = HeaderMut(&mut header);
        fields.set_id(id);
        fields.set_origin_timestamp(origin_timestamp);
        fields.set_payload_length(payload_length);
        fields.set_user_headers_length(user_headers_length);
        self.messages.extend_from_slice(&header);
        self.messages.extend_from_slice(payload);
        self.messages.extend_from_slice(user_headers);

        self.indexes.extend_from_slice(&[0; 4]);
        self.indexes.extend_from_slice(&position.to_le_bytes());
        self.indexes.extend_from_slice(&[0; 8]);
        Ok(())
    }

    /// Number of messages in the batch.
    pub fn messages_count(&self) -> u32 {
        u32::try_from(self.indexes.len() / INDEX_BYTES)
            .expect("a full batch refuses further messages")
    }

    /// Bytes of the messages, headers included, without the index.
    pub fn messages_bytes(&self) -> usize {
        self.messages.len()
    }

    /// Return whether the batch has no messages.
    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Remove all messages and keep the memory.
    pub fn clear(&mut self) {
        self.indexes.clear();
        self.messages.clear();
    }

    /// Return the parts of a request that follow the metadata: the index block and the messages.
    pub fn into_parts(self) -> (Vec<u8>, Vec<u8>) {
        (self.indexes, self.messages)
    }

    /// `SendMessages` request with this batch. An empty batch is refused by every server (4009).
    pub fn request<'a>(
        &'a self,
        stream: Identifier<'a>,
        topic: Identifier<'a>,
        partitioning: Partitioning<'a>,
    ) -> SendMessages<'a> {
        SendMessages {
            stream,
            topic,
            partitioning,
            messages_count: self.messages_count(),
            indexes: &self.indexes,
            messages: &self.messages,
        }
    }
}

/// Bytes of a frame that remain after its code and the longest metadata.
const FRAME_BODY_BYTES_MAX: usize =
    u32::MAX as usize - 4 - crate::command::METADATA_PREFIX_BYTES_MAX;

/// End of the next message in the block of messages; `None` if the frame would become too long.
fn next_position(indexes_bytes: usize, messages_bytes: usize, added_bytes: usize) -> Option<u32> {
    let end = messages_bytes.checked_add(added_bytes)?;
    let body_bytes = indexes_bytes.checked_add(INDEX_BYTES)?.checked_add(end)?;
    if body_bytes > FRAME_BODY_BYTES_MAX {
        return None;
    }
    u32::try_from(end).ok()
}

fn length(part: &[u8], max: u32) -> Option<u32> {
    u32::try_from(part.len())
        .ok()
        .filter(|&length| length <= max)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::batch::validate;

    fn is_valid(builder: &BatchBuilder) -> bool {
        let zero = Identifier::Numeric(0);
        let send = builder.request(zero, zero, Partitioning::Balanced);
        validate(send.indexes, send.messages, send.messages_count).is_ok()
    }

    #[test]
    fn built_batches_are_valid_and_reusable() {
        let mut builder = BatchBuilder::with_capacity(2, 200);
        assert!(builder.is_empty());
        assert!(!is_valid(&builder));
        for _ in 0..2 {
            builder.push(7, 1, b"payload", b"headers").expect("fits");
            builder.push(0, 2, b"", b"").expect("fits");
            assert!(is_valid(&builder));
            assert_eq!(builder.messages_count(), 2);
            assert_eq!(builder.messages_bytes(), 64 + 14 + 64);
            let (index, messages) = builder.clone().into_parts();
            assert_eq!(validate(&index, &messages, 2), Ok(()));
            let place = messages.as_ptr();
            builder = BatchBuilder::from_parts(index, messages);
            assert!(builder.is_empty());
            assert_eq!(builder.messages.as_ptr(), place);
            builder.clear();
            assert!(builder.is_empty());
        }
    }

    #[test]
    fn messages_that_no_server_accepts_leave_the_batch_as_it_was() {
        let mut builder = BatchBuilder::new();
        builder.push(1, 1, b"a", b"").expect("fits");
        let headers = vec![0; USER_HEADERS_SIZE_BYTES_MAX as usize + 1];
        assert_eq!(
            builder.push(1, 1, b"", &headers),
            Err(PushError::UserHeadersTooBig {
                size_bytes: headers.len()
            })
        );
        let payload = vec![0; PAYLOAD_SIZE_BYTES_MAX as usize + 1];
        assert_eq!(
            builder.push(1, 1, &payload, &headers),
            Err(PushError::PayloadTooBig {
                size_bytes: payload.len()
            })
        );
        assert_eq!(builder.messages_count(), 1);
        assert!(is_valid(&builder));
    }

    #[test]
    fn a_batch_never_outgrows_its_frame() {
        let largest = FRAME_BODY_BYTES_MAX - INDEX_BYTES;
        assert_eq!(
            next_position(0, 0, largest).map(|position| position as usize),
            Some(largest)
        );
        assert_eq!(next_position(0, 0, largest + 1), None);
        assert_eq!(next_position(INDEX_BYTES, 0, largest), None);
        assert_eq!(next_position(0, 64, largest), None);
        assert_eq!(next_position(0, usize::MAX, 1), None);
        assert_eq!(next_position(usize::MAX, 1, 1), None);
    }
}
