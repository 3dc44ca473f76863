//! Responses about transactions and reader pins.

use super::part::{Part, payload};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Malformed, TransactionOutcome};

/// Response to `StageMessages`: the messages are stored. Layout: `u128 stage · u64 messages · u64 bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedMessages {
    /// Id of the stage.
    pub stage: u128,
    /// Number of messages in the stage so far.
    pub messages: u64,
    /// Number of bytes of those messages.
    pub bytes: u64,
}

/// Response to `CommitTransaction` and to `AbortTransaction`. Layout: `u8 outcome · u64 number`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionResult {
    /// Outcome: this command took effect, or an earlier one had.
    pub outcome: TransactionOutcome,
    /// Number of the last commit of the transaction, 0 if it has none; grows over all commits.
    pub number: u64,
}

/// Last commit under a transaction name: response to `GetTransaction`.
///
/// Layout: `Name query_id · u64 batch_id · u64 number · u64 committed_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionInfo<'a> {
    /// Query that committed it.
    pub query_id: &'a str,
    /// Batch of that query.
    pub batch_id: u64,
    /// Number of the commit; grows over all commits.
    pub number: u64,
    /// Time of the commit, in microseconds since the Unix epoch.
    pub committed_at: u64,
}

/// Value pinned for a reader: response to `PinReader`. Layout: `u8 was_there · u32 length · u8 value[length]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderPin<'a> {
    /// True if a value had been pinned earlier; that value is returned.
    pub already_pinned: bool,
    /// Pinned value.
    pub value: &'a [u8],
}

payload!(StagedMessages);
payload!(TransactionResult);
payload!(TransactionInfo<'a>);
payload!(ReaderPin<'a>);

impl Part<'_> for StagedMessages {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            stage: reader.u128()?,
            messages: reader.u64()?,
            bytes: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u128(self.stage);
        out.u64(self.messages);
        out.u64(self.bytes);
    }
}

impl Part<'_> for TransactionResult {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            outcome: TransactionOutcome::try_from(reader.u8()?)?,
            number: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u8(self.outcome.code());
        out.u64(self.number);
    }
}

impl<'a> Part<'a> for TransactionInfo<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            query_id: reader.name()?,
            batch_id: reader.u64()?,
            number: reader.u64()?,
            committed_at: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.name(self.query_id);
        out.u64(self.batch_id);
        out.u64(self.number);
        out.u64(self.committed_at);
    }
}

impl<'a> Part<'a> for ReaderPin<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            already_pinned: reader.flag()?,
            value: reader.bytes32()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.bool(self.already_pinned);
        out.bytes32(self.value);
    }
}
