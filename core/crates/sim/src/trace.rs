//! Digest of all events of a run, and their textual form.

use std::fmt::{self, Write as _};
use std::hash::Hasher as _;

use twox_hash::XxHash3_64;

/// Events of a run, as a digest and optionally as lines.
pub struct Trace {
    hasher: XxHash3_64,
    events: u64,
    lines: Option<Lines>,
}

type Lines = Box<dyn FnMut(&str)>;

impl fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Trace of {} events", self.events)
    }
}

impl Trace {
    /// Trace that only computes the digest.
    pub fn silent() -> Self {
        Self {
            hasher: XxHash3_64::with_seed(0),
            events: 0,
            lines: None,
        }
    }

    /// Trace that also passes each event to `lines`.
    pub fn lines(lines: impl FnMut(&str) + 'static) -> Self {
        Self {
            lines: Some(Box::new(lines)),
            ..Self::silent()
        }
    }

    /// Record an event of kind `kind` at a node; `detail` are the numbers that distinguish it from others.
    pub fn event(&mut self, now_ns: u64, node: u8, kind: &'static str, detail: &[u64]) {
        self.events += 1;
        self.hasher.write(&now_ns.to_le_bytes());
        self.hasher.write(&[node]);
        self.hasher.write(kind.as_bytes());
        for word in detail {
            self.hasher.write(&word.to_le_bytes());
        }
    }

    /// Describe the last event for people; not part of the digest.
    pub fn explain(&mut self, now_ns: u64, node: u8, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            let mut line = String::new();
            // Writing to a string does not fail.
            let _ = write!(
                line,
                "{:>12}.{:06} ms  node {node:<2} ",
                now_ns / 1_000_000,
                now_ns % 1_000_000
            );
            line.push_str(&text());
            lines(&line);
        }
    }

    /// Number of events so far.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Digest of all events: runs with equal digests are identical.
    pub fn digest(&self) -> u64 {
        self.hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_depends_on_every_event_and_its_order() {
        let digest = |events: &[(u64, u64)]| {
            let mut trace = Trace::silent();
            for (at_ns, word) in events {
                trace.event(*at_ns, 0, "event", &[*word]);
            }
            trace.digest()
        };
        assert_eq!(digest(&[(1, 1), (2, 2)]), digest(&[(1, 1), (2, 2)]));
        assert_ne!(digest(&[(1, 1), (2, 2)]), digest(&[(1, 2), (2, 2)]));
        assert_ne!(digest(&[(1, 1), (1, 2)]), digest(&[(1, 2), (1, 1)]));
    }
}
