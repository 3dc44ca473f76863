//! Consumers.

use headrace_engine::{
    ConsumerHandle, Taken,
    session::{ConsumerConfig, Item, Membership, Start},
};
use pyo3::{exceptions::PyValueError, prelude::*};

use super::{
    batch::Batch,
    failures::{request_error, used_after_fork},
    pending::Pending,
    producer::owned,
    requester::engine,
    settings::{SessionConfig, seconds},
};
use crate::{codec::Name, forked::ForkGuard};

/// A consumer of one topic.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct Consumer {
    consumer: ForkGuard<ConsumerHandle>,
}

fn start_of(kind: &str, value: u64) -> PyResult<Start> {
    Ok(match kind {
        "first" => Start::First,
        "end" => Start::End,
        "offset" => Start::Offset(value),
        "timestamp" => Start::Timestamp(value),
        other => {
            let problem = format!("start: {other:?} is none of first, end, offset and timestamp");
            return Err(PyValueError::new_err(problem));
        }
    })
}

#[pymethods]
impl Consumer {
    #[expect(clippy::too_many_arguments, reason = "settings by name")]
    #[new]
    #[pyo3(signature = (
        config, stream, topic, *, group = None, creates_group = true, name = None, partitions = None,
        start = ("first", 0), batch_messages, prefetch_bytes, heartbeat
    ))]
    fn new(
        config: &SessionConfig,
        stream: Name,
        topic: Name,
        group: Option<Name>,
        creates_group: bool,
        name: Option<Name>,
        partitions: Option<Vec<u32>>,
        start: (&str, u64),
        batch_messages: u32,
        prefetch_bytes: usize,
        heartbeat: f64,
    ) -> PyResult<Self> {
        let membership = match (&group, &name) {
            (Some(group), None) if partitions.is_none() => Membership::Group {
                group: owned("group", group)?,
                create: creates_group,
            },
            (None, name) => Membership::Alone {
                name: name.as_ref().map(|name| owned("name", name)).transpose()?,
                partitions,
            },
            _ => {
                let problem = "group: the group decides about offsets and partitions, so name and partitions exclude it";
                return Err(PyValueError::new_err(problem));
            }
        };
        if batch_messages == 0 || prefetch_bytes == 0 {
            return Err(PyValueError::new_err(
                "batch_messages, prefetch_bytes: they must be at least 1",
            ));
        }
        let settings = ConsumerConfig {
            start: start_of(start.0, start.1)?,
            batch_messages,
            prefetch_bytes,
            heartbeat: seconds("heartbeat", heartbeat)?,
            ..ConsumerConfig::new(membership)
        };
        let (stream, topic) = (owned("stream", &stream)?, owned("topic", &topic)?);
        let consumer = ConsumerHandle::new(&engine()?, &config.0, settings, stream, topic);
        Ok(Self {
            consumer: ForkGuard::new(consumer),
        })
    }

    /// Ends when the partitions are known, and where each of them is read.
    fn opened(&self) -> PyResult<Pending> {
        Ok(Pending::new(self.handle()?.opened()))
    }

    /// The next item as its kind and its content; or `("nothing", Pending)`; or `("ended", None)`.
    fn take(&self, python: Python<'_>) -> PyResult<(&'static str, Py<PyAny>)> {
        let item = match self.handle()?.take() {
            Taken::Item(item) => item,
            Taken::Nothing(wait) => {
                return Ok(("nothing", Py::new(python, Pending::new(wait))?.into_any()));
            }
            Taken::Ended => return Ok(("ended", python.None())),
        };
        Ok(match item {
            Item::Batch(batch) => ("batch", Py::new(python, Batch::new(batch))?.into_any()),
            Item::Assigned(ids) => ("assigned", ids.into_pyobject(python)?.into_any().unbind()),
            Item::Revoked(ids) => ("revoked", ids.into_pyobject(python)?.into_any().unbind()),
            Item::Lost(ids) => ("lost", ids.into_pyobject(python)?.into_any().unbind()),
            Item::Gap {
                partition,
                from,
                to,
            } => {
                let gap = (partition, from, to);
                ("gap", gap.into_pyobject(python)?.into_any().unbind())
            }
            Item::Reset { partition } => (
                "reset",
                partition.into_pyobject(python)?.into_any().unbind(),
            ),
            Item::Refused(failure) => (
                "refused",
                failure
                    .to_string()
                    .into_pyobject(python)?
                    .into_any()
                    .unbind(),
            ),
            Item::Failed(failure) => return Err(request_error(&failure)),
        })
    }

    /// Store the offset of the last processed message; the result is None.
    fn commit(&self, partition: u32, offset: u64) -> PyResult<Pending> {
        Ok(Pending::new(self.handle()?.commit(partition, offset)))
    }

    /// Note the offset after the last processed message, from which reading continues after a lost connection.
    ///
    /// 0 takes back what was noted before.
    fn note_processed(&self, partition: u32, next_offset: u64) -> PyResult<()> {
        self.handle()?.note_processed(partition, next_offset);
        Ok(())
    }

    /// Continue at another place; the result is whether the consumer reads the partition.
    #[pyo3(signature = (partition, start, value = 0))]
    fn seek(&self, partition: u32, start: &str, value: u64) -> PyResult<Pending> {
        let start = start_of(start, value)?;
        Ok(Pending::new(self.handle()?.seek(partition, start)))
    }

    /// Read no more messages of these partitions until `resume`.
    fn pause(&self, partitions: Vec<u32>) -> PyResult<()> {
        self.handle()?.pause(partitions);
        Ok(())
    }

    /// Continue to read these partitions.
    fn resume(&self, partitions: Vec<u32>) -> PyResult<()> {
        self.handle()?.resume(partitions);
        Ok(())
    }

    /// Result: next offset to be read, None if unknown, and the end of the partition; None if it is not read.
    fn position(&self, partition: u32) -> PyResult<Pending> {
        Ok(Pending::new(self.handle()?.position(partition)))
    }

    /// Leave the group and end; the result is None.
    fn leave(&self) -> PyResult<Pending> {
        Ok(Pending::new(self.handle()?.leave()))
    }
}

impl Consumer {
    fn handle(&self) -> PyResult<&ConsumerHandle> {
        self.consumer.get().map_err(used_after_fork)
    }
}
