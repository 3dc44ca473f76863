//! Staged batches, transactions, and pinned readers.

use headrace_wire::{
    Command, Partitioning, SendMessages, TransactionOutcome,
    batch::INDEX_BYTES,
    command::{
        AbortTransaction, CommitTransaction, PinReader, RecordName, StageMessages, StagedAt,
    },
    response::{
        ReaderPin as WirePin, StagedMessages as WireStaged, TransactionInfo as WireTransaction,
        TransactionResult as WireResult,
    },
};
use pyo3::{prelude::*, pybacked::PyBackedBytes, types::PyBytes};

use super::{
    arguments::{Name, name},
    commands::{Encoded, encoded},
    error::malformed,
};
use crate::readable::readable;

readable!(StagedMessages: stage, messages, bytes);
readable!(TransactionResult: already_committed, number);
readable!(Transaction: query_id, batch_id, number, committed_at);
readable!(PinnedReader: was_there, value);

/// State of a staged batch.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct StagedMessages {
    /// Identifier of 128 bits; the upper half is its expiry, in microseconds since the Unix epoch.
    stage: u128,
    /// Number of messages in the stage so far.
    messages: u64,
    /// Size of these messages.
    bytes: u64,
}

/// Result of a commit or an abort.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct TransactionResult {
    /// True if an earlier command has committed the batch: this one has changed nothing. False: this command took
    /// effect.
    already_committed: bool,
    /// Number of the last commit of the transaction; 0 if there is none.
    number: u64,
}

/// Last commit of a transaction.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct Transaction {
    /// Query that committed the batch.
    query_id: String,
    /// Number of the batch within the query.
    batch_id: u64,
    /// Number of the commit, which grows over all commits.
    number: u64,
    /// Time in microseconds since the Unix epoch.
    committed_at: u64,
}

/// Value pinned for a reader.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct PinnedReader {
    /// True if an earlier request has pinned the value.
    was_there: bool,
    /// Value that is pinned: the earlier one, if there was one.
    value: Py<PyBytes>,
}

#[expect(clippy::too_many_arguments, reason = "fields of the command")]
#[pyfunction]
#[pyo3(signature = (
    *, stream, topic, partition, messages_count, batch = None, stage = 0, chunk = 0, is_last = false,
    lifetime_seconds = 0
))]
fn encode_stage_messages(
    python: Python<'_>,
    stream: Name,
    topic: Name,
    partition: u32,
    messages_count: u32,
    batch: Option<PyBackedBytes>,
    stage: u128,
    chunk: u32,
    is_last: bool,
    lifetime_seconds: u32,
) -> PyResult<Encoded<'_>> {
    let batch = batch.as_deref().unwrap_or_default();
    let (indexes, messages) = batch
        .split_at_checked(messages_count as usize * INDEX_BYTES)
        .unwrap_or((batch, &[]));
    let command = StageMessages {
        stage,
        lifetime_seconds,
        chunk,
        is_last,
        batch: SendMessages {
            stream: stream.checked("stream")?,
            topic: topic.checked("topic")?,
            partitioning: Partitioning::PartitionId(partition),
            messages_count,
            indexes,
            messages,
        },
    };
    encoded(python, &Command::StageMessages(command))
}

/// Topic, partition, incarnation of the partition, stage.
type Staged = (u32, u32, u64, u128);

fn staged(stages: Vec<Staged>) -> Vec<StagedAt> {
    let stage = |(topic_id, partition_id, incarnation, stage)| StagedAt {
        topic_id,
        partition_id,
        incarnation,
        stage,
    };
    stages.into_iter().map(stage).collect()
}

#[pyfunction]
#[pyo3(signature = (*, stream, transaction, query_id, batch_id, stages, fence = false))]
fn encode_commit_transaction<'py>(
    python: Python<'py>,
    stream: Name,
    transaction: &str,
    query_id: &str,
    batch_id: u64,
    stages: Vec<Staged>,
    fence: bool,
) -> PyResult<Encoded<'py>> {
    let command = CommitTransaction {
        stream: stream.checked("stream")?,
        transaction: name("transaction", transaction)?,
        query_id: name("query_id", query_id)?,
        batch_id,
        fence,
        stages: staged(stages),
    };
    encoded(python, &Command::CommitTransaction(command))
}

#[pyfunction]
#[pyo3(signature = (*, stream, transaction, query_id, batch_id, stages))]
fn encode_abort_transaction<'py>(
    python: Python<'py>,
    stream: Name,
    transaction: &str,
    query_id: &str,
    batch_id: u64,
    stages: Vec<Staged>,
) -> PyResult<Encoded<'py>> {
    let command = AbortTransaction {
        stream: stream.checked("stream")?,
        transaction: name("transaction", transaction)?,
        query_id: name("query_id", query_id)?,
        batch_id,
        stages: staged(stages),
    };
    encoded(python, &Command::AbortTransaction(command))
}

fn kept<'a>(stream: &'a Name, field: &str, text: &'a str) -> PyResult<RecordName<'a>> {
    Ok(RecordName {
        stream: stream.checked("stream")?,
        name: name(field, text)?,
    })
}

#[pyfunction]
#[pyo3(signature = (*, stream, transaction))]
fn encode_get_transaction<'py>(
    python: Python<'py>,
    stream: Name,
    transaction: &str,
) -> PyResult<Encoded<'py>> {
    let command = kept(&stream, "transaction", transaction)?;
    encoded(python, &Command::GetTransaction(command))
}

#[pyfunction]
#[pyo3(signature = (*, stream, transaction))]
fn encode_delete_transaction<'py>(
    python: Python<'py>,
    stream: Name,
    transaction: &str,
) -> PyResult<Encoded<'py>> {
    let command = kept(&stream, "transaction", transaction)?;
    encoded(python, &Command::DeleteTransaction(command))
}

#[pyfunction]
#[pyo3(signature = (*, stream, reader, value))]
fn encode_pin_reader<'py>(
    python: Python<'py>,
    stream: Name,
    reader: &str,
    value: PyBackedBytes,
) -> PyResult<Encoded<'py>> {
    let command = PinReader {
        stream: stream.checked("stream")?,
        reader: name("reader", reader)?,
        value: &value,
    };
    encoded(python, &Command::PinReader(command))
}

#[pyfunction]
#[pyo3(signature = (*, stream, reader))]
fn encode_unpin_reader<'py>(
    python: Python<'py>,
    stream: Name,
    reader: &str,
) -> PyResult<Encoded<'py>> {
    let command = kept(&stream, "reader", reader)?;
    encoded(python, &Command::UnpinReader(command))
}

#[pyfunction]
fn decode_staged_messages(payload: &[u8]) -> PyResult<StagedMessages> {
    let staged = WireStaged::decode(payload).map_err(malformed)?;
    Ok(StagedMessages {
        stage: staged.stage,
        messages: staged.messages,
        bytes: staged.bytes,
    })
}

#[pyfunction]
fn decode_transaction_result(payload: &[u8]) -> PyResult<TransactionResult> {
    let result = WireResult::decode(payload).map_err(malformed)?;
    Ok(TransactionResult {
        already_committed: result.outcome == TransactionOutcome::AlreadyCommitted,
        number: result.number,
    })
}

#[pyfunction]
fn decode_transaction(payload: &[u8]) -> PyResult<Option<Transaction>> {
    if payload.is_empty() {
        return Ok(None);
    }
    let transaction = WireTransaction::decode(payload).map_err(malformed)?;
    Ok(Some(Transaction {
        query_id: transaction.query_id.into(),
        batch_id: transaction.batch_id,
        number: transaction.number,
        committed_at: transaction.committed_at,
    }))
}

#[pyfunction]
fn decode_pinned_reader(python: Python<'_>, payload: &[u8]) -> PyResult<PinnedReader> {
    let pinned = WirePin::decode(payload).map_err(malformed)?;
    Ok(PinnedReader {
        was_there: pinned.already_pinned,
        value: PyBytes::new(python, pinned.value).unbind(),
    })
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<StagedMessages>()?;
    module.add_class::<TransactionResult>()?;
    module.add_class::<Transaction>()?;
    module.add_class::<PinnedReader>()?;
    module.add_function(wrap_pyfunction!(encode_stage_messages, module)?)?;
    module.add_function(wrap_pyfunction!(encode_commit_transaction, module)?)?;
    module.add_function(wrap_pyfunction!(encode_abort_transaction, module)?)?;
    module.add_function(wrap_pyfunction!(encode_get_transaction, module)?)?;
    module.add_function(wrap_pyfunction!(encode_delete_transaction, module)?)?;
    module.add_function(wrap_pyfunction!(encode_pin_reader, module)?)?;
    module.add_function(wrap_pyfunction!(encode_unpin_reader, module)?)?;
    module.add_function(wrap_pyfunction!(decode_staged_messages, module)?)?;
    module.add_function(wrap_pyfunction!(decode_transaction_result, module)?)?;
    module.add_function(wrap_pyfunction!(decode_transaction, module)?)?;
    module.add_function(wrap_pyfunction!(decode_pinned_reader, module)?)
}
