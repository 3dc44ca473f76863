//! Limit of open files, which bounds the number of connections.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum;
        assert_eq!(raise_open_files_limit().unwrap().now, hard);
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
    }
}
