//! Batches that are sent more than once.

use std::sync::Arc;

use headrace_wire::batch::BatchBuilder;
use headrace_wire::frame::{REQUEST_HEADER_BYTES, RequestHeader};
use headrace_wire::{Command, CommandCode, Identifier, Partitioning, SendMessages};

use crate::ClientError;

/// A batch with the front of its frame already encoded, so that sending it allocates and encodes nothing.
///
/// The messages are shared: batches for several partitions cost one copy of them.
#[derive(Debug, Clone)]
pub struct PreparedBatch {
    front: Vec<u8>,
    messages: Arc<BatchBuilder>,
}

impl PreparedBatch {
    /// Encode the front of the frame that carries `messages` to this topic.
    pub fn new(
        stream: Identifier<'_>,
        topic: Identifier<'_>,
        partitioning: Partitioning<'_>,
        messages: Arc<BatchBuilder>,
    ) -> Result<Self, ClientError> {
        let mut front = Vec::new();
        encode_front(&messages.request(stream, topic, partitioning), &mut front)?;
        Ok(Self { front, messages })
    }

    /// Number of messages in the batch.
    pub fn messages_count(&self) -> u32 {
        self.messages.messages_count()
    }

    /// Size of the whole frame.
    pub fn frame_bytes(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// Parts of the frame: header and metadata, indexes, messages.
    pub(crate) fn parts(&self) -> [&[u8]; 3] {
        // Only the borrowed blocks are used: the encoded front holds the destination.
        let anywhere = Identifier::Numeric(0);
        let request = self
            .messages
            .request(anywhere, anywhere, Partitioning::Balanced);
        [&self.front, request.indexes, request.messages]
    }
}

/// Append the frame's header and metadata; on the wire, indexes and messages follow them unchanged.
pub(crate) fn encode_front(
    request: &SendMessages<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ClientError> {
    let unrepresentable = |status| ClientError::Unrepresentable {
        command: CommandCode::SendMessages,
        status,
    };
    let start = out.len();
    Command::SendMessages(SendMessages {
        indexes: &[],
        messages: &[],
        ..*request
    })
    .try_encode_frame(out)
    .map_err(unrepresentable)?;

    let metadata_bytes = out.len() - start - REQUEST_HEADER_BYTES;
    let header = RequestHeader::new(
        CommandCode::SendMessages.code(),
        metadata_bytes + request.indexes.len() + request.messages.len(),
    )
    .ok_or_else(|| unrepresentable(headrace_wire::Status::INVALID_FORMAT))?;
    out[start..start + REQUEST_HEADER_BYTES].copy_from_slice(&header.encode());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GW-1: the concatenated parts equal the frame encoded as a whole.
    #[test]
    fn the_parts_are_the_frame() {
        let mut messages = BatchBuilder::new();
        messages.push(1, 5, b"hi", b"").expect("fits");
        messages.push(0, 6, b"bye", b"").expect("fits");
        let (stream, topic) = (Identifier::Named("s1"), Identifier::Numeric(0));
        for partitioning in [
            Partitioning::Balanced,
            Partitioning::PartitionId(3),
            Partitioning::MessagesKey(b"user-123"),
        ] {
            let mut whole = Vec::new();
            Command::SendMessages(messages.request(stream, topic, partitioning))
                .try_encode_frame(&mut whole)
                .expect("representable");
            let prepared =
                PreparedBatch::new(stream, topic, partitioning, Arc::new(messages.clone()))
                    .expect("representable");
            assert_eq!(prepared.parts().concat(), whole);
            assert_eq!(prepared.frame_bytes(), whole.len());
        }
    }

    #[test]
    fn a_name_that_cannot_travel_is_refused() {
        let refused = PreparedBatch::new(
            Identifier::Named(""),
            Identifier::Numeric(0),
            Partitioning::Balanced,
            Arc::new(BatchBuilder::new()),
        );
        assert!(matches!(refused, Err(ClientError::Unrepresentable { .. })));
    }
}
