//! Step function: events in, outputs out.

use alloc::vec::Vec;

use crate::api::{DropReason, Event, FatalReason, Now, Output, Status};
use crate::frame::{Area, Frame, PIPELINE_MAX};
use crate::replica::flow::{Flow, must};
use crate::replica::log::Marks;
use crate::rules::Rules;

use crate::replica::Replica;

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
        if self.view.status() == Status::Halted {
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
        if self.view.status() == Status::Halted {
            return;
        }
        self.moment.advance(now);
        let before = self.marks();
        match part(self)
            .and_then(|()| self.finish_step())
            .and_then(|()| self.check_step(before))
        {
            Ok(()) => self.outbox.release(out),
            Err(reason) => {
                self.view.halt();
                self.outbox.discard();
                out.push(Output::Fatal(reason));
            }
        }
    }

    fn finish_step(&mut self) -> Flow {
        self.raise_release()?;
        self.admit()?;
        self.try_acknowledge(false)?;
        self.keep_repairing();
        self.log.flush(&mut self.outbox);
        self.flush_reads();
        self.flush_commit();
        self.log.note_time(self.moment.now());
        self.superblock
            .flush(&self.view, &self.log, &mut self.outbox)
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
                self.transfers.send(token, bytes, &mut self.outbox);
                Ok(())
            }
            Event::ChunkWritten { token } => self.on_chunk_written(token),
            Event::Installed { token, clients } => self.on_installed(token, clients),
            Event::StorageError(error) => Err(FatalReason::Storage(error)),
        }
    }

    fn on_frame(&mut self, frame: Frame) -> Flow {
        let header = frame.header;
        let own = self.outbox.origin();
        if header.cluster != own.cluster || header.group != own.group || header.epoch != own.epoch {
            self.outbox.dropped(DropReason::Foreign);
            return Ok(());
        }
        if header.command().is_of_client() {
            self.on_client_frame(&frame);
            return Ok(());
        }
        if header.replica >= self.view.members() {
            self.outbox.dropped(DropReason::Author);
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
        if header.replica == own.replica {
            self.outbox.dropped(DropReason::Author);
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
                self.outbox.dropped(DropReason::Status);
                Ok(())
            }
        }
    }

    /// Complete an append, or a cut, of the journal. If there is room for prepares again, those missing are requested.
    fn on_journal(&mut self, complete: impl FnOnce(&mut Self) -> Flow) -> Flow {
        let lacked_room = self.lacks_room();
        complete(self)?;
        let has_room_again = lacked_room && !self.lacks_room();
        self.repair.headers.hasten_if(has_room_again);
        Ok(())
    }

    fn on_appended(&mut self, token: u64) -> Flow {
        self.on_journal(|replica| replica.log.appended(token))?;
        self.try_acknowledge(false)?;
        self.advance()
    }

    fn on_truncated(&mut self, token: u64) -> Flow {
        self.on_journal(|replica| replica.log.truncated(token))
    }

    fn fire_timers(&mut self) -> Flow {
        if self.timers.prepare.fires(&self.moment) {
            self.on_prepare_timeout();
        }
        if self.timers.commit_message.fires(&self.moment) {
            self.on_commit_message_timeout();
        }
        if self.timers.normal_heartbeat.fires(&self.moment) {
            self.on_silence();
        }
        if self.timers.start_view_change.fires(&self.moment) {
            self.on_start_view_change_timeout();
        }
        if self.timers.view_change_status.fires(&self.moment) {
            self.on_view_change_stalled();
        }
        if self.timers.do_view_change.fires(&self.moment) {
            self.on_do_view_change_timeout();
        }
        if self.timers.request_start_view.fires(&self.moment) {
            self.on_request_start_view_timeout();
        }
        if self.timers.repair.fires(&self.moment) {
            self.on_repair_timeout();
        }
        if self.timers.repair_sync.fires(&self.moment) {
            self.on_repair_sync_timeout();
        }
        if self.timers.abdicate.fires(&self.moment) {
            self.on_abdicate_timeout();
        }
        if self.timers.probe.fires(&self.moment) {
            self.on_probe_timeout();
        }
        if self.timers.transfer.fires(&self.moment) {
            self.on_transfer_timeout();
        }
        // A view is entered when the votes suffice, no matter whose timer completed them.
        self.enter_when_voted()
    }

    /// Numbers before a step that must never decrease.
    fn marks(&self) -> ((u32, u32), Marks) {
        let views = (self.view.number(), self.view.log_view());
        (views, self.log.marks())
    }

    /// Check the cheap invariants after a step, in every build. A violation stops the replica before any output of the
    /// step is released.
    fn check_step(&self, (views, marks): ((u32, u32), Marks)) -> Flow {
        self.view.check(views)?;
        self.log.check(marks)?;
        self.execution.check()?;
        must(
            self.outbox.origin().view == self.view.number(),
            "frames are sealed in the view of the replica",
        )?;
        must(
            !self.view.knows_log() || self.log.commit_max() <= self.log.head(),
            "a decided log reaches its commit point",
        )?;
        if self.view.leads() {
            must(
                self.log.head() - self.log.commit_max() <= PIPELINE_MAX,
                "the pipeline has a bound",
            )?;
            self.pipeline.check(self.log.head())?;
        }
        Ok(())
    }

    /// Check all invariants, including those that walk the log: for tests and for inspection of a running replica.
    pub fn check_invariants(&self) -> Result<(), FatalReason> {
        self.check_step(self.marks())?;
        if self.view.has_log() {
            self.log.check_chain()?;
        }
        self.log.check_entries()
    }
}
