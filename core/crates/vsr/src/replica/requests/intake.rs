//! Requests of clients and of this process, on their way to prepares (VRR 4.1, steps 1 to 3).

use crate::api::{DropReason, Outcome, Proposal};
use crate::frame::area::Area;
use crate::frame::{Frame, Release};
use crate::replica::flow::Flow;
use crate::replica::requests::admission::Gate;
use crate::replica::requests::responder::Responder;
use crate::rules::{Rules, past_recovery_barrier};

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    pub(crate) fn responder(&mut self) -> Responder<'_> {
        Responder::new(&mut self.outbox, &self.view, self.log.commit_max())
    }

    /// Conditions under which requests are admitted now. Prepares wait until the time window is known: after a start the
    /// log time would resume in the past, and a lease granted at that time would expire with the next operation.
    pub(crate) fn gate(&self) -> Gate {
        let serves = self.view.serves();
        Gate {
            serves,
            admits: serves && past_recovery_barrier(self.log.commit_min(), self.view.start_op()),
            may_prepare: self.log.pipeline_has_room() && self.moment.now().wall.is_known(),
            release: self.log.release_in_force(),
        }
    }

    pub(crate) fn on_client_frame(&mut self, frame: &Frame) {
        match frame.header.area {
            Area::Request(area) if self.admission.is_well_formed(frame, &area) => {
                let gate = self.gate();
                let mut responder =
                    Responder::new(&mut self.outbox, &self.view, self.log.commit_max());
                let (clients, rules) = (self.execution.clients(), &self.member.rules);
                self.admission
                    .request(frame, &area, gate, clients, rules, &mut responder);
            }
            Area::PingClient(area) => {
                self.responder().pong(area.client, area.ping_monotonic_ns);
            }
            _ => self.outbox.dropped(DropReason::Malformed),
        }
    }

    pub(crate) fn on_proposal(&mut self, proposal: Proposal) {
        let gate = self.gate();
        let mut responder = Responder::new(&mut self.outbox, &self.view, self.log.commit_max());
        self.admission
            .propose(proposal, gate, &self.member.rules, &mut responder);
    }

    /// Make prepares of the queued requests, as far as the pipeline has room.
    pub(crate) fn admit(&mut self) -> Flow {
        while self.admission.queued() > 0 {
            let gate = self.gate();
            if !gate.admits || !gate.may_prepare {
                break;
            }
            let Some(batch) = self.admission.next_batch() else {
                break;
            };
            let release = self.log.newest_release().unwrap_or(Release::FIRST);
            self.prepare(release, batch.area, batch.body)?;
            let op = self.log.head();
            let checksum = self.log.checksum(op).unwrap_or(0);
            let unknown = self
                .admission
                .prepared(&batch.clients, batch.request_ids, op, checksum);
            for request_id in unknown {
                self.outbox.answer_proposal(request_id, Outcome::Unknown);
            }
        }
        Ok(())
    }

    /// Redirect the clients of a former primary.
    pub(crate) fn redirect_clients(&mut self) {
        let mut responder = Responder::new(&mut self.outbox, &self.view, self.log.commit_max());
        self.admission.redirect_all(&mut responder);
    }

    /// Redirect the proposals of a former primary that the recorded log of the view has cut.
    pub(crate) fn redirect_cut_proposals(&mut self) {
        let mut responder = Responder::new(&mut self.outbox, &self.view, self.log.commit_max());
        self.admission
            .redirect_above(self.log.head(), &mut responder);
    }
}
