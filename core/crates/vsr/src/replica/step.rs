//! Step function: events in, outputs out.

use alloc::vec::Vec;

use crate::api::{DropReason, Event, FatalReason, Now, Output, Status};
use crate::frame::{Area, Frame, PIPELINE_MAX};
use crate::rules::Rules;

use crate::replica::{Append, Flow, Replica};

/// Number of operations that may wait while the journal is being cut.
const UNWRITTEN_OPS_MAX: u64 = 4 * PIPELINE_MAX;

impl<R: Rules> Replica<R> {
    /// Process the events since the last step, at the time `now`, and append the resulting outputs to `out`.
    ///
    /// Requests of one step share prepares, and prepares of one step share an append: a host that collects events while
    /// storage is busy batches without artificial delay.
    pub fn step(
        &mut self,
        now: Now,
        events: impl IntoIterator<Item = Event>,
        out: &mut Vec<Output>,
    ) {
        self.guarded(now, out, |replica| {
            for event in events {
                replica.recent.note(now.monotonic_ns, &event);
                replica.on_event(event)?;
            }
            Ok(())
        });
    }

    /// Advance the time. To be called at [`Replica::next_deadline_ns`], or every 10 ms; late calls are allowed.
    pub fn tick(&mut self, now: Now, out: &mut Vec<Output>) {
        self.guarded(now, out, Self::fire_timers);
    }

    /// Monotonic time at which [`Replica::tick`] has something to do.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        if self.status == Status::Halted {
            return None;
        }
        self.timers.next()
    }

    /// Run a part of a step. After an invariant violation the outputs of the step are discarded.
    pub(super) fn guarded(
        &mut self,
        now: Now,
        out: &mut Vec<Output>,
        part: impl FnOnce(&mut Self) -> Flow,
    ) {
        if self.status == Status::Halted {
            return;
        }
        self.now = Now {
            monotonic_ns: now.monotonic_ns.max(self.now.monotonic_ns),
            wall: now.wall,
        };
        let before = self.marks();
        match part(self)
            .and_then(|()| self.finish_step())
            .and_then(|()| self.check_step(before))
        {
            Ok(()) => out.append(&mut self.out),
            Err(reason) => {
                self.status = Status::Halted;
                self.out.clear();
                out.push(Output::Fatal(reason));
            }
        }
    }

    fn finish_step(&mut self) -> Flow {
        self.raise_release()?;
        self.admit()?;
        self.try_acknowledge(false)?;
        self.keep_repairing();
        self.flush_appends();
        self.flush_reads();
        self.flush_commit();
        self.note_log_time();
        self.flush_superblock()
    }

    fn on_event(&mut self, event: Event) -> Flow {
        match event {
            Event::Frame(frame) => self.on_frame(frame),
            Event::Request(frame) => {
                self.on_client_frame(&frame);
                Ok(())
            }
            Event::Propose(proposal) => {
                self.on_proposal(proposal);
                Ok(())
            }
            Event::CommonRelease(release) => {
                self.on_common(release);
                Ok(())
            }
            Event::PeerConnected => {
                self.on_peer_connected();
                Ok(())
            }
            Event::Appended { token } => self.on_appended(token),
            Event::LogTruncated { token } => self.on_truncated(token),
            Event::SuperblockWritten { token } => self.on_superblock_written(token),
            Event::ReadDone { token, frame } => self.on_read_done(token, frame),
            Event::Applied { op, replies } => self.on_applied(op, replies),
            Event::CheckpointDone { op, length, digest } => {
                self.on_checkpoint_done(op, length, digest)
            }
            Event::ChunkRead { token, bytes } => {
                self.on_chunk_read(token, bytes);
                Ok(())
            }
            Event::ChunkWritten { token } => self.on_chunk_written(token),
            Event::Installed { token, clients } => self.on_installed(token, clients),
            Event::StorageError(error) => Err(FatalReason::Storage(error)),
        }
    }

    fn on_frame(&mut self, frame: Frame) -> Flow {
        let header = frame.header;
        if header.cluster != self.config.cluster
            || header.group != self.config.group
            || header.epoch != self.superblock.epoch()
        {
            self.dropped(DropReason::Foreign);
            return Ok(());
        }
        if header.command().is_of_client() {
            self.on_client_frame(&frame);
            return Ok(());
        }
        if header.replica >= self.config.replica_count {
            self.dropped(DropReason::Author);
            return Ok(());
        }
        if let Area::Prepare(_) = header.area {
            // The author of a prepare need not be its sender: repair sends the original bytes, including those written
            // by this replica.
            let Some(prepare) = frame.into_prepare() else {
                return Ok(());
            };
            return self.on_prepare(prepare);
        }
        if header.replica == self.config.replica {
            self.dropped(DropReason::Author);
            return Ok(());
        }
        match header.area {
            Area::PrepareOk(area) => self.on_prepare_ok(&header, area),
            Area::Commit(area) => self.on_commit(&header, area),
            Area::CommitOk(area) => {
                self.on_commit_ok(&header, area);
                Ok(())
            }
            Area::StartViewChange(area) => self.on_start_view_change(&header, area),
            Area::DoViewChange(area) => self.on_do_view_change(&frame, area),
            Area::StartView(area) => self.on_start_view(&frame, area),
            Area::RequestStartView(area) => {
                self.on_request_start_view(&header, area);
                Ok(())
            }
            Area::RequestHeaders(area) => {
                self.on_request_headers(&header, area);
                Ok(())
            }
            Area::Headers(area) => self.on_headers(&frame, area),
            Area::RequestPrepare(area) => {
                self.on_request_prepare(&header, area);
                Ok(())
            }
            Area::NoPrepare(area) => {
                self.on_no_prepare(&header, area);
                Ok(())
            }
            Area::RequestState(area) => {
                self.on_request_state(&header, area);
                Ok(())
            }
            Area::StateManifest(area) => self.on_state_manifest(&frame, area),
            Area::RequestChunk(area) => {
                self.on_request_chunk(&header, area);
                Ok(())
            }
            Area::Chunk(area) => {
                self.on_chunk(&frame, area);
                Ok(())
            }
            Area::Prepare(_)
            | Area::Request(_)
            | Area::PingClient(_)
            | Area::PongClient(_)
            | Area::Reply(_)
            | Area::Eviction(_)
            | Area::Redirect(_)
            | Area::Ping(_)
            | Area::Pong(_) => {
                self.dropped(DropReason::Status);
                Ok(())
            }
        }
    }

    /// Append bodies to the journal, unless the journal is being cut: records are written over a cut only after it.
    fn flush_appends(&mut self) {
        if !self.truncating.is_empty() || self.log.unwritten_ops() == 0 {
            return;
        }
        let token = self.next_token + 1;
        let frames = self.log.take_unwritten(token, self.commit_max);
        if frames.is_empty() {
            return;
        }
        self.next_token = token;
        let append = Append {
            ops: frames.iter().map(|frame| frame.header.op()).collect(),
            bytes: frames.iter().map(|frame| frame.size_bytes() as u64).sum(),
        };
        self.appending_bytes += append.bytes;
        self.appends.insert(token, append);
        self.out.push(Output::Append { token, frames });
    }

    /// Return whether this backup accepts no prepares until its journal has stored others. Bodies that were requested
    /// before are still accepted. A replica that leads, or is about to, needs all bodies of its view.
    pub(super) fn lacks_room(&self) -> bool {
        let unwritten_ops = self.log.unwritten_ops() as u64;
        let is_held_up = !self.truncating.is_empty() && unwritten_ops >= UNWRITTEN_OPS_MAX;
        self.follows() && (is_held_up || self.appending_bytes >= self.config.unstored_bytes_max)
    }

    fn on_appended(&mut self, token: u64) -> Flow {
        let Some(append) = self.appends.remove(&token) else {
            return Err(FatalReason::Invariant("a token is completed once"));
        };
        let lacked_room = self.lacks_room();
        self.appending_bytes -= append.bytes;
        self.header_repair.soon |= lacked_room && !self.lacks_room();
        self.log.written(token, &append.ops);
        self.shrink_cache();
        self.try_acknowledge(false)?;
        self.advance()
    }

    fn on_truncated(&mut self, token: u64) -> Flow {
        let before = self.truncating.len();
        let lacked_room = self.lacks_room();
        self.truncating.retain(|other| *other != token);
        self.header_repair.soon |= lacked_room && !self.lacks_room();
        if self.truncating.len() == before {
            return Err(FatalReason::Invariant("a token is completed once"));
        }
        Ok(())
    }
}
