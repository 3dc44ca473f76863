//! The load generator and the null listener as its baseline.

use std::{sync::mpsc::RecvTimeoutError, time::Duration};

use headrace_bench::{BenchConfig, Phase, Progress, null};
use pyo3::{exceptions::PyValueError, prelude::*};
use serde_json::json;

use crate::errors::{CoreError, client_error, core_error};

/// Interval between two calls that report progress.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// Run the load generator; returns its report as JSON.
#[pyfunction]
#[pyo3(signature = (config_json, progress = None))]
pub(crate) fn bench_run(
    python: Python<'_>,
    config_json: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let config: BenchConfig = serde_json::from_str(config_json).map_err(|error| {
        PyValueError::new_err(format!("the settings of the load are wrong: {error}"))
    })?;
    let counters = Progress::default();
    let watch = |ended: &std::sync::mpsc::Receiver<()>| -> PyResult<()> {
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(REPORT_INTERVAL) {
            let goes_on = Python::attach(|python| {
                python.check_signals()?;
                match &progress {
                    Some(callback) => callback
                        .call1(python, (progress_json(&counters),))?
                        .is_truthy(python),
                    None => Ok(true),
                }
            });
            if !matches!(goes_on, Ok(true)) {
                counters.stop();
            }
            goes_on?;
        }
        Ok(())
    };
    let report = python.detach(|| {
        std::thread::scope(|scope| {
            let (finished, ended) = std::sync::mpsc::channel();
            let counters = &counters;
            let run = scope.spawn(move || {
                let report = headrace_bench::run(config, counters);
                drop(finished);
                report
            });
            let watched = watch(&ended);
            let report = run
                .join()
                .map_err(|_| CoreError::new_err("the load generator panicked"))?;
            watched?;
            report.map_err(|error| client_error(&error))
        })
    })?;
    serde_json::to_string(&report).map_err(|error| core_error(&error))
}

fn progress_json(progress: &Progress) -> String {
    let snapshot = progress.snapshot();
    json!({
        "phase": match snapshot.phase {
            Phase::Preparing => "preparing",
            Phase::WarmingUp => "warming up",
            Phase::Measuring => "measuring",
            Phase::Finished => "finished",
        },
        "expected_bytes": snapshot.expected_bytes,
        "produced_bytes": snapshot.produced_bytes,
        "produced_messages": snapshot.produced_messages,
        "consumed_bytes": snapshot.consumed_bytes,
        "consumed_messages": snapshot.consumed_messages,
    })
    .to_string()
}

/// Run the null listener, which reads and discards, until a signal ends it.
#[pyfunction]
#[pyo3(signature = (address, message_size_bytes = 1000, messages_per_poll = 1000, on_bound = None))]
pub(crate) fn null_listener(
    python: Python<'_>,
    address: &str,
    message_size_bytes: u32,
    messages_per_poll: u32,
    on_bound: Option<Py<PyAny>>,
) -> PyResult<()> {
    let options = null::NullOptions {
        message_size_bytes,
        messages_count_max: messages_per_poll,
        ..null::NullOptions::default()
    };
    let listener =
        null::NullListener::bind(address, &options).map_err(|error| client_error(&error))?;
    let bound = listener
        .local_address()
        .map_err(|error| client_error(&error))?;
    if let Some(callback) = on_bound {
        callback.call1(python, (bound.to_string(),))?;
    }
    // The listener serves on threads of its own; this thread keeps checking for signals.
    std::thread::Builder::new()
        .name("null-listener".into())
        .spawn(move || listener.serve())
        .map_err(|error| core_error(&error))?;
    loop {
        python.detach(|| std::thread::sleep(Duration::from_millis(100)));
        python.check_signals()?;
    }
}
