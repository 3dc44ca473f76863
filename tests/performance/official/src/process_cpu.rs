//! CPU time of a process, read from `/proc`.

use std::fs;
use std::io;

use serde::Serialize;

/// Clock ticks per second in `/proc`, independent of the kernel's own tick.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time since the start of a process.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ProcessCpu {
    pub user_seconds: f64,
    pub system_seconds: f64,
}

impl ProcessCpu {
    /// Read the CPU time of process `pid` with all of its threads.
    pub fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let seconds = |field: usize| {
            // The command's name is in parentheses and may contain blanks.
            let (_, fields) = stat.rsplit_once(')')?;
            let ticks: u32 = fields.split_ascii_whitespace().nth(field)?.parse().ok()?;
            Some(f64::from(ticks) / TICKS_PER_SECOND)
        };
        match (seconds(11), seconds(12)) {
            (Some(user_seconds), Some(system_seconds)) => Ok(Self {
                user_seconds,
                system_seconds,
            }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Return the CPU time used since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_seconds: self.user_seconds - earlier.user_seconds,
            system_seconds: self.system_seconds - earlier.system_seconds,
        }
    }
}
