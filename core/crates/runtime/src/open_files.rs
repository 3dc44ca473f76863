//! Limit of open files, which files of partitions and connections share.

use std::{io, num::NonZeroU16};

use headrace_model::Level;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::events::Events;

/// Maximum number of files this process may have open, connections included. `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFilesLimit {
    /// Limit before the call.
    pub before: Option<u64>,
    /// Limit after the call.
    pub now: Option<u64>,
}

/// Raise the limit as far as this process may: from the soft limit, which is often 1024, to the hard one.
///
/// Call it once at startup and report the result: it bounds the connections a node can hold.
///
/// # Errors
///
/// The kernel refuses; the limit is unchanged.
pub fn raise_open_files_limit() -> io::Result<OpenFilesLimit> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        )?;
    }
    Ok(OpenFilesLimit {
        before: current,
        now: maximum,
    })
}

/// Maximum number of files that a shard keeps open.
pub(crate) const HANDLES_MAX: usize = 1024;
/// Number of files that a shard may keep open however low the limit is: those of a few operations at a time.
const HANDLES_MIN: usize = 16;
/// Descriptors for everything else: rings, listeners, the control plane with its journal, modules that are imported.
const RESERVED: usize = 256;
/// Part of the rest that is for listeners beside the shards, such as HTTP and gRPC, which limit themselves to it
/// (`headrace_chassis.open_files`).
const OTHER_LISTENERS_PART: usize = 4;

/// Division of the open files of a process among its shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Division {
    /// Files of partitions that a shard keeps open.
    pub(crate) handles: usize,
    /// Connections that a shard accepts.
    pub(crate) connections: usize,
}

impl Division {
    /// Raise the limit of this process and divide it; a limit that is low is reported.
    pub(crate) fn of_raised_limit(
        shards: NonZeroU16,
        connections_max: usize,
        events: &Events,
    ) -> Self {
        let limit = match raise_open_files_limit() {
            Ok(raised) => raised.now,
            Err(error) => {
                let message = format!("the limit of open files stays: {error}");
                events.push(Level::Warning, message);
                getrlimit(Resource::Nofile).current
            }
        };
        let division = Self::of(limit, shards, connections_max);
        let shards = usize::from(shards.get());
        let (handles, connections) = (division.handles * shards, division.connections * shards);
        if let Some(limit) = limit
            && (connections < connections_max || division.handles < HANDLES_MAX)
        {
            let message = format!(
                "the limit of open files is {limit}: enough for {connections} of the {connections_max} connections that \
                 the settings allow, and for {handles} files of partitions at a time; raise the hard limit (ulimit -Hn)"
            );
            events.push(Level::Warning, message);
        }
        division
    }

    /// Divide a limit: files get at most half of what is not reserved, so that connections find descriptors however
    /// many partitions there are, and connections the rest.
    pub(crate) fn of(limit: Option<u64>, shards: NonZeroU16, connections_max: usize) -> Self {
        let shards = usize::from(shards.get());
        let wanted = connections_max.div_ceil(shards);
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else {
            return Self {
                handles: HANDLES_MAX,
                connections: wanted,
            };
        };
        let free = limit.saturating_sub(RESERVED);
        let shared = (free - free / OTHER_LISTENERS_PART) / shards;
        let handles = (shared / 2).clamp(HANDLES_MIN, HANDLES_MAX);
        Self {
            handles,
            connections: wanted.min(shared.saturating_sub(handles).max(HANDLES_MIN)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn division(limit: u64, shards: u16) -> (usize, usize) {
        let of = Division::of(Some(limit), NonZeroU16::new(shards).unwrap(), 20_000);
        (of.handles, of.connections)
    }

    #[test]
    fn files_leave_descriptors_to_connections() {
        assert_eq!(division(1 << 20, 2), (1024, 10_000));
        assert_eq!(division(1024, 2), (144, 144));
        assert_eq!(division(4096, 1), (1024, 1856));
        assert_eq!(
            division(300, 2),
            (16, 16),
            "a few of each, whatever the limit"
        );
        let unlimited = Division::of(None, NonZeroU16::MIN, 20_000);
        assert_eq!((unlimited.handles, unlimited.connections), (1024, 20_000));
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum;
        assert_eq!(raise_open_files_limit().unwrap().now, hard);
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
    }
}
