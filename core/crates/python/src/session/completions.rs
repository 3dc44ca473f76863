//! Completed operations, for an event loop.

use std::{
    io::{Read, Write},
    mem,
    os::{fd::AsRawFd, unix::net::UnixStream},
    sync::{Arc, Mutex, PoisonError},
};

use pyo3::{exceptions::PyOSError, prelude::*};

/// Numbers of operations that have ended, with a descriptor that is readable while there are any.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct Completions {
    pub(super) queue: Arc<Queue>,
    readable: Mutex<UnixStream>,
}

pub(super) struct Queue {
    numbers: Mutex<Vec<u64>>,
    wake: UnixStream,
}

impl Queue {
    pub(super) fn push(&self, number: u64) {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = numbers.is_empty();
        numbers.push(number);
        drop(numbers);
        if was_empty {
            // A full pipe is readable already, and a closed one has no reader.
            let _ = (&self.wake).write(&[1]);
        }
    }
}

#[pymethods]
impl Completions {
    #[new]
    fn new() -> PyResult<Self> {
        let pair = || {
            let (wake, readable) = UnixStream::pair()?;
            wake.set_nonblocking(true)?;
            readable.set_nonblocking(true)?;
            Ok((wake, readable))
        };
        let (wake, readable) =
            pair().map_err(|error: std::io::Error| PyOSError::new_err(error.to_string()))?;
        let queue = Arc::new(Queue {
            numbers: Mutex::default(),
            wake,
        });
        Ok(Self {
            queue,
            readable: Mutex::new(readable),
        })
    }

    /// Descriptor that is readable while there are any.
    fn fileno(&self) -> i32 {
        self.readable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_raw_fd()
    }

    /// Take the numbers since the last call.
    fn take(&self) -> Vec<u64> {
        let readable = self.readable.lock().unwrap_or_else(PoisonError::into_inner);
        let mut drained = [0; 64];
        let _ = (&*readable).read(&mut drained);
        let numbers = &self.queue.numbers;
        mem::take(&mut *numbers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
