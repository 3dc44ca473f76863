//! Selection of the I/O driver, with the reason for a fallback.

use std::{fmt, fs, io, str::FromStr};

use super::{Driver, Waker, Workers, poll::PollDriver, uring::UringDriver};

/// The setting for the I/O driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DriverChoice {
    /// `io_uring` if available, otherwise the fallback.
    #[default]
    Auto,
    /// `io_uring`; fail if not available.
    Uring,
    /// The fallback, even if `io_uring` is available.
    Poll,
}

/// The setting is none of `auto`, `uring` and `poll`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the I/O driver is one of auto, uring and poll")]
pub struct UnknownDriver;

/// Reason why `io_uring` is not used although it was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// Name of the kernel's error (`EPERM`): short and with few values, fit for a metric's label.
    pub code: String,
    /// Cause of the refusal.
    pub reason: String,
    /// Remedy for the operator.
    pub remedy: &'static str,
}

/// `io_uring` was required but is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the uring driver was demanded, but {0}")]
pub struct DriverUnavailable(pub Fallback);

/// The decision for this process: made once at startup and used by every shard thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    choice: DriverChoice,
    uring: bool,
    fallback: Option<Fallback>,
    inline_sends_max: usize,
}

impl DriverChoice {
    /// Name used in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Poll => "poll",
        }
    }
}

impl FromStr for DriverChoice {
    type Err = UnknownDriver;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "poll" => Ok(Self::Poll),
            _ => Err(UnknownDriver),
        }
    }
}

impl Selection {
    /// Decide by probing what `choice` requests, on the calling thread.
    pub fn decide(choice: DriverChoice) -> Result<Self, DriverUnavailable> {
        let attempt = match choice {
            DriverChoice::Poll => None,
            DriverChoice::Auto | DriverChoice::Uring => Some(UringDriver::probe()),
        };
        let fallback = match attempt {
            Some(Err(error)) => Some(Fallback::explain(&error)),
            Some(Ok(())) | None => None,
        };
        match fallback {
            Some(fallback) if choice == DriverChoice::Uring => Err(DriverUnavailable(fallback)),
            fallback => Ok(Self {
                choice,
                uring: choice != DriverChoice::Poll && fallback.is_none(),
                fallback,
                inline_sends_max: INLINE_SENDS_MAX,
            }),
        }
    }

    /// Set the maximum number of sends per turn for which the ring driver makes direct system calls.
    #[must_use]
    pub fn with_inline_sends_max(self, inline_sends_max: usize) -> Self {
        Self {
            inline_sends_max,
            ..self
        }
    }

    /// Name of the driver: `uring` or `poll`.
    pub fn name(&self) -> &'static str {
        if self.uring { "uring" } else { "poll" }
    }

    /// Reason why the ring is not used; `None` if it is used, or was not requested.
    pub fn fallback(&self) -> Option<&Fallback> {
        self.fallback.as_ref()
    }

    /// Open a driver for the calling thread, the only one that may use it.
    ///
    /// # Errors
    ///
    /// No file descriptor or memory is left. If the choice is `auto`, a ring refused now is replaced by the fallback.
    pub fn open(&self, waker: Waker, workers: Workers) -> io::Result<Box<dyn Driver>> {
        if self.uring {
            match UringDriver::open(waker.clone(), workers.clone(), self.inline_sends_max) {
                Ok(driver) => return Ok(Box::new(driver)),
                Err(error) if self.choice == DriverChoice::Uring => return Err(error),
                Err(_) => {}
            }
        }
        Ok(Box::new(PollDriver::open(waker, workers)?))
    }
}

/// Default of [`Selection::with_inline_sends_max`]; the measurements are at `UringDriver`.
const INLINE_SENDS_MAX: usize = 1;

impl fmt::Display for Selection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "I/O driver {} ({})",
            self.name(),
            self.choice.name()
        )?;
        match &self.fallback {
            Some(fallback) => write!(formatter, ": {fallback}"),
            None => Ok(()),
        }
    }
}

impl Fallback {
    fn explain(error: &io::Error) -> Self {
        let (code, reason, remedy) = match error.raw_os_error() {
            Some(libc::EPERM) => forbidden("EPERM"),
            Some(libc::EACCES) => forbidden("EACCES"),
            Some(libc::ENOSYS) => (
                "ENOSYS",
                "this kernel has no io_uring",
                "use Linux 6.1 or newer; some sandboxes (gVisor) do not offer it at all",
            ),
            Some(libc::ENOMEM) => (
                "ENOMEM",
                "the kernel refuses memory for a ring",
                "raise the limit of locked memory (ulimit -l) or of the container's memory",
            ),
            Some(libc::EINVAL) => ("EINVAL", TOO_OLD, NEWER),
            Some(libc::EOPNOTSUPP) => ("EOPNOTSUPP", TOO_OLD, NEWER),
            Some(libc::EMFILE) => (
                "EMFILE",
                "no file descriptor is free",
                "raise the limit of open files",
            ),
            Some(libc::ENFILE) => ("ENFILE", "no file descriptor is free", "raise fs.file-max"),
            _ => {
                return Self {
                    code: error
                        .raw_os_error()
                        .map_or_else(|| "unknown".to_owned(), |code| format!("E{code}")),
                    reason: format!("the kernel refuses a ring: {error}"),
                    remedy: "see the kernel's log",
                };
            }
        };
        Self {
            code: code.to_owned(),
            reason: reason.to_owned(),
            remedy,
        }
    }
}

const TOO_OLD: &str = "this kernel's io_uring lacks operations that are needed";
const NEWER: &str = "use Linux 6.1 or newer";

/// Explain `EPERM` and `EACCES`: either the sysctl, which can be read, or a filter forbids rings.
fn forbidden(code: &'static str) -> (&'static str, &'static str, &'static str) {
    let switch = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    if matches!(switch.trim(), "1" | "2") {
        (
            code,
            "the sysctl kernel.io_uring_disabled switches io_uring off",
            "set kernel.io_uring_disabled to 0",
        )
    } else {
        (
            code,
            "a seccomp profile or security module forbids io_uring",
            "run with a profile that allows io_uring_setup, io_uring_enter and io_uring_register",
        )
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} ({}); remedy: {}",
            self.reason, self.code, self.remedy
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_parses_back() {
        for choice in [DriverChoice::Auto, DriverChoice::Uring, DriverChoice::Poll] {
            assert_eq!(choice.name().parse(), Ok(choice));
        }
        assert_eq!("epoll".parse::<DriverChoice>(), Err(UnknownDriver));
    }

    /// SHARD-10: the fallback can be selected, and does not report problems of a ring that was not requested.
    #[test]
    fn the_fallback_can_be_demanded() {
        let selection = Selection::decide(DriverChoice::Poll).unwrap();
        assert_eq!(selection.name(), "poll");
        assert_eq!(selection.fallback(), None);
        assert_eq!(selection.to_string(), "I/O driver poll (poll)");
    }

    /// SHARD-10: every refusal names its cause and a remedy.
    #[test]
    fn refusals_are_explained() {
        for (errno, code) in [
            (libc::EPERM, "EPERM"),
            (libc::ENOSYS, "ENOSYS"),
            (libc::ENOMEM, "ENOMEM"),
            (libc::EINVAL, "EINVAL"),
            (libc::EMFILE, "EMFILE"),
            (libc::EBADF, "E9"),
        ] {
            let fallback = Fallback::explain(&io::Error::from_raw_os_error(errno));
            assert_eq!(fallback.code, code);
            assert!(!fallback.reason.is_empty() && !fallback.remedy.is_empty());
        }
    }
}
