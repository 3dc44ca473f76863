//! Trace records as tuples.

use headrace_runtime::{TraceKey, TraceRecord};
use pyo3::{prelude::*, types::PyTuple};

fn key(key: TraceKey) -> (u16, u32) {
    (key.shard.0, key.request.get())
}

pub(crate) fn tuple<'py>(
    python: Python<'py>,
    record: &TraceRecord,
) -> PyResult<Bound<'py, PyTuple>> {
    match record {
        TraceRecord::Request(trace) => (
            "request",
            key(trace.key),
            trace.context.trace_id,
            trace.context.span_id,
            trace.command.map(headrace_wire::CommandCode::name),
            trace.began,
            trace.ended,
            trace.status,
            trace.bytes,
        )
            .into_pyobject(python),
        TraceRecord::Partition(trace) => {
            let place = trace.namespace;
            (
                "partition",
                key(trace.key),
                trace.owner.0,
                (place.stream().0, place.topic().0, place.partition().0),
                trace.is_append,
                (
                    trace.began,
                    trace.issued,
                    trace.written,
                    trace.synced,
                    trace.ended,
                ),
                trace.is_fulfilled,
                trace.messages_count,
            )
                .into_pyobject(python)
        }
    }
}
