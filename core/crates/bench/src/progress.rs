//! Progress of a run, and the means to stop it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// State shared between a run and its observers. All of it is lock-free.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU8,
    stop: AtomicBool,
    expected_bytes: AtomicU64,
    produced_bytes: AtomicU64,
    produced_messages: AtomicU64,
    consumed_bytes: AtomicU64,
    consumed_messages: AtomicU64,
}

/// Phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Connecting, creating stream and topic, preparing messages.
    Preparing = 0,
    /// Running without counting.
    WarmingUp = 1,
    /// Running and counting.
    Measuring = 2,
    /// Done.
    Finished = 3,
}

impl Phase {
    /// Name for display and for other languages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preparing => "preparing",
            Self::WarmingUp => "warming up",
            Self::Measuring => "measuring",
            Self::Finished => "finished",
        }
    }
}

/// State of a run at one moment. Only measured work counts, warm-up does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressSnapshot {
    /// Phase of the run.
    pub phase: Phase,
    /// Payload bytes of producers and consumers together at the end of the run; `None` if the run ends by time.
    pub expected_bytes: Option<u64>,
    /// Payload bytes acknowledged to producers.
    pub produced_bytes: u64,
    /// Messages acknowledged to producers.
    pub produced_messages: u64,
    /// Payload bytes received by consumers.
    pub consumed_bytes: u64,
    /// Messages received by consumers.
    pub consumed_messages: u64,
}

impl Progress {
    /// Request the run to end soon. It reports the measurements until then.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Return whether the run was requested to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Current state.
    pub fn snapshot(&self) -> ProgressSnapshot {
        let expected_bytes = self.expected_bytes.load(Ordering::Relaxed);
        ProgressSnapshot {
            phase: match self.phase.load(Ordering::Relaxed) {
                0 => Phase::Preparing,
                1 => Phase::WarmingUp,
                2 => Phase::Measuring,
                _ => Phase::Finished,
            },
            expected_bytes: (expected_bytes != 0).then_some(expected_bytes),
            produced_bytes: self.produced_bytes.load(Ordering::Relaxed),
            produced_messages: self.produced_messages.load(Ordering::Relaxed),
            consumed_bytes: self.consumed_bytes.load(Ordering::Relaxed),
            consumed_messages: self.consumed_messages.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(crate) fn expect_bytes(&self, bytes: Option<u64>) {
        self.expected_bytes
            .store(bytes.unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn add_produced(&self, messages: u64, bytes: u64) {
        self.produced_messages
            .fetch_add(messages, Ordering::Relaxed);
        self.produced_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_consumed(&self, messages: u64, bytes: u64) {
        self.consumed_messages
            .fetch_add(messages, Ordering::Relaxed);
        self.consumed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
