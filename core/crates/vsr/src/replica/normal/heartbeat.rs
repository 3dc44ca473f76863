//! Heartbeats: the primary announces the commit point and learns which backups follow (VRR 4.1, step 6).

use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::{Notice, Now, Output};
use crate::frame::area::{Commit, CommitOk, VoteReason};
use crate::frame::{Frame, FrameFlags, Header};
use crate::rules::{Rules, commit_verified};

use crate::replica::{Flow, Replica};

impl<R: Rules> Replica<R> {
    pub(in crate::replica) fn on_commit_message_timeout(&mut self) {
        if self.leads() && !self.abdicated {
            self.announce_commit = true;
            // One heartbeat requests answers, which prove a quorum and report checkpoints.
            self.reads.want_answers = true;
        }
    }

    /// Send one heartbeat at the end of a step if one was requested.
    pub(in crate::replica) fn flush_commit(&mut self) {
        if !core::mem::take(&mut self.announce_commit) || !self.leads() || self.abdicated {
            return;
        }
        if self.config.replica_count == 1 {
            return;
        }
        let Some(checksum) = self.header(self.commit_max).map(|header| header.checksum) else {
            return;
        };
        let area = Commit {
            commit_checksum: checksum,
            commit: self.commit_max,
            checkpoint_op: self.superblock.durable_checkpoint(),
            timestamp_monotonic_ns: self.now.monotonic_ns,
            probe: self.reads.round(),
            gc_floor: self.group_checkpoint(),
        };
        let mut origin = self.origin();
        if core::mem::take(&mut self.reads.want_answers) {
            origin.flags = FrameFlags::WANT_ACK;
        }
        let frame = Frame::seal(origin, area, Slice::default()).any();
        self.broadcast(&frame);
        self.arm_commit_message();
    }

    pub(in crate::replica) fn on_commit(&mut self, header: &Header, area: Commit) -> Flow {
        self.hear_checkpoint(header.replica, area.checkpoint_op);
        if header.view > self.view {
            self.ask_for_view(header.view);
            return Ok(());
        }
        if header.view < self.view
            || !self.follows()
            || header.replica != self.primary_of(self.view)
        {
            return Ok(());
        }
        self.hear_primary();
        self.checkpointing.hear_group(area.gc_floor);
        self.header_repair.hear_of(area.commit);
        if header.flags.contains(FrameFlags::WANT_ACK) {
            let answer = CommitOk {
                timestamp_monotonic_ns: area.timestamp_monotonic_ns,
                probe: area.probe,
                op: self.head,
                commit_min: self.commit_min,
                checkpoint_op: self.superblock.durable_checkpoint(),
            };
            self.send(header.replica, answer, Slice::default());
        }
        if area.commit > self.head {
            // The log of this backup is a prefix of the primary's, so all of it is committed.
            self.learn_commit(self.head);
            self.header_repair.soon |= !self.timers.repair.armed();
            return self.advance();
        }
        let held = self.header(area.commit).map(|header| header.checksum);
        if commit_verified(held, area.commit_checksum) {
            self.learn_commit(area.commit);
            self.compact();
            return self.advance();
        }
        if held.is_none() && area.commit <= self.commit_min {
            return Ok(());
        }
        self.header_repair.soon |= !self.timers.repair.armed();
        Ok(())
    }

    pub(in crate::replica) fn on_commit_ok(&mut self, header: &Header, area: CommitOk) {
        self.hear_checkpoint(header.replica, area.checkpoint_op);
        if !self.leads() || header.view != self.view {
            return;
        }
        self.last_heard_ns[usize::from(header.replica)] = self.now.monotonic_ns;
        self.reads.confirm(header.replica, area.probe);
        self.compact();
    }

    /// Record that the primary of this view is alive: withdraw the vote to leave the view.
    pub(in crate::replica) fn hear_primary(&mut self) {
        self.arm_normal_heartbeat();
        self.withdraw_vote();
    }

    /// Abdicate as a primary that no quorum answers: redirect clients and vote like any replica.
    pub(in crate::replica) fn on_abdicate_timeout(&mut self) {
        if !self.leads() || self.abdicated {
            return;
        }
        let wait = u64::from(self.config.timeouts.primary_abdicate_ms) * 1_000_000;
        let mut heard: Vec<u64> = self
            .peers()
            .map(|peer| self.last_heard_ns[usize::from(peer)])
            .collect();
        heard.sort_unstable_by(|left, right| right.cmp(left));
        // Besides this replica itself, the last answer needed for a quorum.
        let quorum_heard = heard
            .get(usize::from(self.quorums.replication).saturating_sub(2))
            .copied()
            .unwrap_or(self.now.monotonic_ns);
        let deadline = quorum_heard + wait;
        if deadline > self.now.monotonic_ns {
            self.timers.abdicate.at(deadline);
        } else {
            self.step_down();
        }
    }

    fn step_down(&mut self) {
        self.abdicated = true;
        self.notice(Notice::Abdicated { view: self.view });
        self.timers.commit_message.stop();
        self.timers.prepare.stop();
        self.redirect_clients();
        self.fail_reads();
        self.vote(VoteReason::Abdication);
        // The timer repeats an unsuccessful vote, and casts one that the silence period after a start prevented.
        self.arm_view_change_status();
    }

    /// Abdicate deliberately: waiting clients are redirected, and the other replicas elect a new primary. No effect
    /// unless this replica leads a group of several.
    pub fn abdicate(&mut self, now: Now, out: &mut Vec<Output>) {
        self.guarded(now, out, |replica| {
            if replica.leads() && !replica.abdicated && replica.quorums.members > 1 {
                replica.step_down();
            }
            Ok(())
        });
    }
}
