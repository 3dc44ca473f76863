//! Staged batches, transactions, and pinned readers.

use headrace_wire::{
    Command, Partitioning, SendMessages, TransactionOutcome,
    batch::INDEX_BYTES,
    command::StageMessages,
    response::{ReaderPin as WirePin, TransactionResult as WireResult},
};
use pyo3::{prelude::*, pybacked::PyBackedBytes, types::PyBytes};

use super::{
    arguments::Name,
    commands::{Encoded, encoded},
    error::malformed,
};
use crate::readable::readable;

readable!(TransactionResult: already_committed, number);
readable!(PinnedReader: was_there, value);

/// Result of a commit or an abort.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct TransactionResult {
    /// True if an earlier command has committed the batch: this one has changed nothing. False: this command took
    /// effect.
    already_committed: bool,
    /// Number of the last commit of the transaction; 0 if there is none.
    number: u64,
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

#[pyfunction]
fn decode_transaction_result(payload: &[u8]) -> PyResult<TransactionResult> {
    let result = WireResult::decode(payload).map_err(malformed)?;
    Ok(TransactionResult {
        already_committed: result.outcome == TransactionOutcome::AlreadyCommitted,
        number: result.number,
    })
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
    module.add_class::<TransactionResult>()?;
    module.add_class::<PinnedReader>()?;
    module.add_function(wrap_pyfunction!(encode_stage_messages, module)?)?;
    module.add_function(wrap_pyfunction!(decode_transaction_result, module)?)?;
    module.add_function(wrap_pyfunction!(decode_pinned_reader, module)?)
}
