//! Set-up of the ring, submission, waiting.

use std::{io, thread, time::Duration};

use io_uring::{
    EnterFlags, IoUring, Probe, cqueue, opcode, squeue,
    types::{SubmitArgs, Timespec},
};
use rustix::io::Errno;

/// Operations submitted per turn before an extra system call is needed.
const SUBMISSIONS: u32 = 512;
/// Size of the completion queue. Completions may come in bursts: those of many turns' receives at once.
const COMPLETIONS: u32 = 4096;

/// The ring of one thread.
pub(super) struct Ring {
    inner: IoUring,
    enter_flags: EnterFlags,
    pub(super) enters: u64,
    pub(super) overflows: u64,
}

/// Set-up flags in order of preference, each with the kernel version that introduced them; the last set is accepted by
/// every supported kernel.
///
/// `SINGLE_ISSUER | DEFER_TASKRUN` lets completions be processed when this thread asks for them and at no other time.
/// `COOP_TASKRUN` at least saves the interrupts.
const FLAVOURS: [Flavour; 4] = [
    // 6.6
    |builder| {
        builder
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_no_sqarray();
    },
    // 6.1
    |builder| {
        builder
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all();
    },
    // 5.19
    |builder| {
        builder.setup_coop_taskrun().setup_submit_all();
    },
    // 5.13
    |_| {},
];

type Flavour = fn(&mut io_uring::Builder);

impl Ring {
    /// Open a ring for the calling thread, with the best flags that the kernel accepts.
    ///
    /// # Errors
    ///
    /// The kernel's refusal; `EINVAL` and `EOPNOTSUPP` if it has rings without the features that this driver needs.
    pub(super) fn open() -> io::Result<Self> {
        Self::open_sized(SUBMISSIONS, COMPLETIONS)
    }

    pub(super) fn open_sized(submissions: u32, completions: u32) -> io::Result<Self> {
        let mut refusal = io::Error::from(Errno::INVAL);
        for flavour in FLAVOURS {
            let mut builder = IoUring::builder();
            builder.dontfork().setup_clamp().setup_cqsize(completions);
            flavour(&mut builder);
            match builder.build(submissions) {
                Ok(ring) => return Self::prepare(ring),
                Err(error) => refusal = error,
            }
            // EINVAL means an unknown flag, the only refusal for which simpler flags help.
            if refusal.raw_os_error() != Some(libc::EINVAL) {
                break;
            }
        }
        Err(refusal)
    }

    fn prepare(ring: IoUring) -> io::Result<Self> {
        let parameters = ring.params();
        let essential = parameters.is_feature_nodrop()
            && parameters.is_feature_submit_stable()
            && parameters.is_feature_fast_poll()
            && parameters.is_feature_ext_arg()
            // Introduced in 5.13, as were multishot polls, which have no feature flag of their own.
            && parameters.is_feature_resource_tagging();
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let operations = [
            opcode::Accept::CODE,
            opcode::AsyncCancel::CODE,
            opcode::Fsync::CODE,
            opcode::PollAdd::CODE,
            opcode::Read::CODE,
            opcode::Recv::CODE,
            opcode::Send::CODE,
            opcode::SendMsg::CODE,
            opcode::Writev::CODE,
        ];
        if !essential || !operations.iter().all(|code| probe.is_supported(*code)) {
            return Err(Errno::OPNOTSUPP.into());
        }
        // Otherwise a waiting shard would count as waiting for the disk, and pressure metrics would show a stalled
        // machine.
        let mut enter_flags = EnterFlags::GETEVENTS;
        if parameters.is_feature_no_iowait() {
            enter_flags |= EnterFlags::NO_IOWAIT;
        }
        Self::bound_kernel_workers(&ring);
        Ok(Self {
            inner: ring,
            enter_flags,
            enters: 0,
            overflows: 0,
        })
    }

    /// Complete one entry: a filter may allow a ring to be created, but not to be used.
    pub(super) fn try_out(mut self) -> io::Result<()> {
        self.push(&opcode::Nop::new().build());
        self.enter(true, Some(Duration::from_secs(1)))?;
        match self.next() {
            Some(_) => Ok(()),
            None => Err(Errno::TIMEDOUT.into()),
        }
    }

    /// Limit the number of kernel threads for blocking work: syncs, and reads that cannot be started otherwise.
    ///
    /// At least 8 for files, since syncs of eight files in parallel share journal commits. Sockets never need one: 4 is
    /// a margin, and 0 would make such an operation fail. The limit is not essential, so a refusal by an old kernel is
    /// ignored.
    fn bound_kernel_workers(ring: &IoUring) {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let files = u32::try_from((2 * processors).clamp(8, 32)).expect("at most 32");
        let _ = ring.submitter().register_iowq_max_workers(&mut [files, 4]);
    }

    /// Queue an entry for the next [`enter`](Self::enter). `false`: the queue is full.
    pub(super) fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: every entry is built by `super::flight` from an operation in the driver's slots: its pointers point
        // to memory owned by that slot, which is emptied only when the entry's completion has been seen (and leaked
        // when the ring ends before that).
        unsafe { self.inner.submission().push(entry) }.is_ok()
    }

    /// Submit everything queued; if `wait`, also wait for one completion, a signal, or the end of `timeout`.
    ///
    /// # Errors
    ///
    /// Only errors that make the ring unusable. A kernel short of memory or of room for completions is not an error:
    /// entries it did not take stay queued.
    pub(super) fn enter(&mut self, wait: bool, timeout: Option<Duration>) -> io::Result<()> {
        self.enters += 1;
        let (submitter, mut submissions, _) = self.inner.split();
        submissions.sync();
        let queued = u32::try_from(submissions.len()).expect("the queue is far shorter");
        let timespec = timeout.map(Timespec::from);
        let mut arguments = SubmitArgs::new();
        if let Some(timespec) = &timespec {
            arguments = arguments.timespec(timespec);
        }
        let flags = self.enter_flags | EnterFlags::EXT_ARG;
        // SAFETY: the flags announce an argument of `SubmitArgs`' type, which outlives the call together with
        // the time that it points to.
        let result =
            unsafe { submitter.enter(queued, u32::from(wait), flags.bits(), Some(&arguments)) };
        match result.map_err(|error| error.raw_os_error()) {
            Ok(_) | Err(Some(libc::ETIME | libc::EINTR | libc::EAGAIN)) => Ok(()),
            Err(Some(libc::EBUSY)) => {
                self.overflows += 1;
                Ok(())
            }
            Err(code) => Err(io::Error::from_raw_os_error(code.unwrap_or(libc::EIO))),
        }
    }

    /// Return whether the kernel has taken all queued entries.
    pub(super) fn is_submitted(&mut self) -> bool {
        self.inner.submission().is_empty()
    }

    /// The next completion that the kernel has posted.
    pub(super) fn next(&mut self) -> Option<cqueue::Entry> {
        self.inner.completion().next()
    }

    /// Return whether the kernel holds completions that did not fit the queue: only another `enter` delivers them.
    pub(super) fn has_overflowed(&mut self) -> bool {
        self.inner.submission().cq_overflow()
    }
}
