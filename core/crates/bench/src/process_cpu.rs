//! CPU time of a process, from `/proc`.

use std::fs;
use std::io;

/// Clock ticks per second in `/proc`. The kernel converts to this value whatever its own tick is.
const TICKS_PER_SECOND: f64 = 100.0;
/// Positions of the two counters among the fields after the command's name.
const USER_FIELD: usize = 11;
const SYSTEM_FIELD: usize = 12;

/// CPU time since the start of a process, all of its threads included, also those that have ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ProcessCpu {
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
}

impl ProcessCpu {
    /// Total of other processes; `None` if there are none.
    pub(crate) fn of_all(pids: &[u32]) -> io::Result<Option<Self>> {
        let mut sum = None;
        for pid in pids {
            let one = Self::read(&format!("/proc/{pid}/stat"))?;
            let sum = sum.get_or_insert(Self {
                user_seconds: 0.0,
                system_seconds: 0.0,
            });
            sum.user_seconds += one.user_seconds;
            sum.system_seconds += one.system_seconds;
        }
        Ok(sum)
    }

    /// CPU time of this process.
    pub(crate) fn of_self() -> io::Result<Self> {
        Self::read("/proc/self/stat")
    }

    /// CPU time used since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            user_seconds: self.user_seconds - earlier.user_seconds,
            system_seconds: self.system_seconds - earlier.system_seconds,
        }
    }

    fn read(path: &str) -> io::Result<Self> {
        Self::parse(&fs::read_to_string(path)?)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a stat file"))
    }

    fn parse(stat: &str) -> Option<Self> {
        // The command's name stands in parentheses and may itself contain blanks and parentheses.
        let (_, fields) = stat.rsplit_once(')')?;
        let seconds = |field: usize| {
            let ticks: u64 = fields.split_ascii_whitespace().nth(field)?.parse().ok()?;
            Some(super::report::as_f64(ticks) / TICKS_PER_SECOND)
        };
        Some(Self {
            user_seconds: seconds(USER_FIELD)?,
            system_seconds: seconds(SYSTEM_FIELD)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_counters_behind_any_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 150 25 7 8 20 0 3 0 99 1 2";
        assert_eq!(
            ProcessCpu::parse(stat),
            Some(ProcessCpu {
                user_seconds: 1.5,
                system_seconds: 0.25
            })
        );
        assert_eq!(ProcessCpu::parse("42 (a) S 1"), None);
    }

    #[test]
    fn work_shows() {
        let before = ProcessCpu::of_self().expect("Linux");
        let mut spent = ProcessCpu {
            user_seconds: 0.0,
            system_seconds: 0.0,
        };
        let mut sum = 0_u64;
        while spent.user_seconds + spent.system_seconds < 0.02 {
            sum = std::hint::black_box((0..1_000_000_u64).fold(sum, u64::wrapping_add));
            let now = ProcessCpu::of_all(&[std::process::id()]).expect("Linux");
            spent = now.expect("there is one").since(before);
        }
        assert!(spent.user_seconds >= 0.0 && spent.system_seconds >= 0.0);
        assert_eq!(ProcessCpu::of_all(&[]).expect("nothing is read"), None);
    }
}
