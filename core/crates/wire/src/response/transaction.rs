//! Answers about transactions and what is kept for readers.

use super::part::{Part, payload};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Malformed, TransactionOutcome};

/// The answer to `StageMessages`: the messages are stored. Layout: `u128 stage · u64 messages · u64 bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedMessages {
    /// The stage.
    pub stage: u128,
    /// Messages in it so far.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The answer to `CommitTransaction` and to `AbortTransaction`. Layout: `u8 outcome · u64 number`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionResult {
    /// Whether this command has changed something, or an earlier one had.
    pub outcome: TransactionOutcome,
    /// Of the transaction's last commit, 0 when there is none; it grows over all commits.
    pub number: u64,
}

/// What was committed last under a name: the answer to `GetTransaction`.
///
/// Layout: `Name query_id · u64 batch_id · u64 number · u64 committed_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionInfo<'a> {
    /// Who has committed it.
    pub query_id: &'a str,
    /// Which batch of that query.
    pub batch_id: u64,
    /// Of the commit; it grows over all commits.
    pub number: u64,
    /// Microseconds since the Unix epoch.
    pub committed_at: u64,
}

/// What is kept for a reader: the answer to `PinReader`. Layout: `u8 was_there · u32 length · u8 value[length]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinnedReader<'a> {
    /// An earlier one has decided.
    pub was_there: bool,
    /// What is kept.
    pub value: &'a [u8],
}

payload!(StagedMessages);
payload!(TransactionResult);
payload!(TransactionInfo<'a>);
payload!(PinnedReader<'a>);

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

impl<'a> Part<'a> for PinnedReader<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            was_there: reader.flag()?,
            value: reader.bytes32()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.bool(self.was_there);
        out.bytes32(self.value);
    }
}
