//! Disk requests of a process: the steps of each, its completion time, and the effect of a crash on it.

use std::collections::VecDeque;

use crate::disk::Disk;
use crate::random::Draw;

/// One operation on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Create or truncate a file.
    Create(String),
    /// Write bytes.
    Write {
        /// File name.
        file: String,
        /// Offset of the first byte.
        offset: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Truncate or extend a file.
    Resize(String, usize),
    /// Sync a file.
    Sync(String),
    /// Rename a file over another.
    Rename(String, String),
    /// Remove a file.
    Remove(String),
    /// Sync the directory.
    SyncNames,
}

impl Step {
    pub(crate) fn carry_out(&self, disk: &mut Disk) {
        match self {
            Self::Create(name) => disk.create(name),
            Self::Write {
                file,
                offset,
                bytes,
            } => disk.write(file, *offset, bytes),
            Self::Resize(name, len) => disk.resize(name, *len),
            Self::Sync(name) => disk.sync(name),
            Self::Rename(from, to) => disk.rename(from, to),
            Self::Remove(name) => disk.remove(name),
            Self::SyncNames => disk.sync_names(),
        }
    }
}

/// Queue of requests to one part of the storage, executed in order.
///
/// Requests that arrive while another one runs wait, and all waiting ones run together: group commit.
#[derive(Debug)]
pub struct Jobs<T> {
    waiting: VecDeque<(u64, Vec<Step>, T)>,
    running_until_ns: u64,
    next_until_ns: u64,
}

impl<T> Default for Jobs<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            running_until_ns: 0,
            next_until_ns: 0,
        }
    }
}

impl<T> Jobs<T> {
    /// Queue a request that takes `latency_ns` once it runs. Returns its completion time.
    pub fn push(&mut self, now_ns: u64, latency_ns: u64, steps: Vec<Step>, then: T) -> u64 {
        let done_ns = if now_ns >= self.next_until_ns {
            self.running_until_ns = now_ns;
            self.next_until_ns = now_ns + latency_ns;
            self.next_until_ns
        } else if now_ns >= self.running_until_ns {
            // The waiting group has started: a new one forms behind it.
            self.running_until_ns = self.next_until_ns;
            self.next_until_ns += latency_ns;
            self.next_until_ns
        } else {
            self.next_until_ns
        };
        self.waiting.push_back((done_ns, steps, then));
        done_ns
    }

    /// Execute all requests that are complete by `now_ns`.
    pub fn finish(&mut self, now_ns: u64, disk: &mut Disk) -> Vec<T> {
        let mut finished = Vec::new();
        while self
            .waiting
            .front()
            .is_some_and(|(done_ns, ..)| *done_ns <= now_ns)
        {
            let (_, steps, then) = self.waiting.pop_front().expect("looked at it just now");
            for step in &steps {
                step.carry_out(disk);
            }
            finished.push(then);
        }
        finished
    }

    /// Crash the process: the first requests reach the disk, the last of them possibly in part, the rest not at all.
    pub fn crash(&mut self, disk: &mut Disk, draw: &mut Draw) {
        let steps: Vec<Step> = self
            .waiting
            .drain(..)
            .flat_map(|(_, steps, _)| steps)
            .collect();
        let whole = draw.below(steps.len() as u64 + 1);
        for (index, step) in steps.iter().enumerate() {
            if (index as u64) < whole {
                step.carry_out(disk);
            } else if let Step::Write {
                file,
                offset,
                bytes,
            } = step
            {
                let kept = usize::try_from(draw.below(bytes.len() as u64 + 1))
                    .expect("at most the length");
                disk.write(file, *offset, &bytes[..kept]);
                break;
            } else {
                break;
            }
        }
    }

    /// Return whether no request is queued or running.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Domain, Fates};

    fn write(file: &str, byte: u8) -> Vec<Step> {
        let bytes = vec![byte; 10];
        vec![
            Step::Write {
                file: file.into(),
                offset: 0,
                bytes,
            },
            Step::Sync(file.into()),
        ]
    }

    fn disk() -> Disk {
        let mut disk = Disk::new(false, false);
        disk.create("a");
        disk
    }

    #[test]
    fn requests_that_wait_finish_together() {
        let mut jobs = Jobs::default();
        assert_eq!(jobs.push(0, 10, write("a", 1), 1), 10);
        assert_eq!(jobs.push(2, 10, write("a", 2), 2), 20);
        assert_eq!(jobs.push(3, 99, write("a", 3), 3), 20);
        assert_eq!(jobs.push(12, 10, write("a", 4), 4), 30);
        let mut disk = disk();
        assert_eq!(jobs.finish(10, &mut disk), [1]);
        assert_eq!(jobs.finish(25, &mut disk), [2, 3]);
        assert_eq!(disk.read("a").unwrap(), [3; 10]);
        assert_eq!(jobs.finish(30, &mut disk), [4]);
        assert_eq!(jobs.push(100, 7, write("a", 5), 5), 107);
    }

    #[test]
    fn a_crash_leaves_a_beginning() {
        let mut seen = Vec::new();
        for count in 0..400 {
            let (mut jobs, mut disk) = (Jobs::default(), disk());
            jobs.push(0, 10, write("a", 1), ());
            jobs.push(0, 10, write("a", 2), ());
            jobs.crash(
                &mut disk,
                &mut Fates::new(1).draw(Domain::Loss, 0, 0, count),
            );
            seen.push(
                disk.read("a")
                    .unwrap()
                    .iter()
                    .map(|byte| u32::from(*byte))
                    .sum::<u32>(),
            );
            assert!(jobs.is_idle());
        }
        assert!(seen.contains(&0) && seen.contains(&10) && seen.contains(&20));
        assert!(seen.iter().any(|sum| *sum % 10 != 0), "some write was torn");
    }
}
