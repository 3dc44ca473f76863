//! Polls that wait at a partition elsewhere, and how they stop.

use headrace_link::{Call, Refusal, StopWaiting, ToNode};
use headrace_model::{Namespace, Timestamp};

use super::{
    Links, Moment,
    calls::{Kind, Place},
};
use crate::api::Origin;

impl Links {
    /// A poll is not to wait any longer.
    pub(super) fn stop_waiting(
        &mut self,
        moment: Moment<'_>,
        origin: Origin,
        namespace: Namespace,
        how: StopWaiting,
    ) {
        let Some(call) = self.calls.wait_of(origin.connection, namespace) else {
            return;
        };
        let Some(asked) = self.calls.get_mut(call) else {
            return;
        };
        let Place::Sent { to, .. } = asked.place else {
            return self.stop_here(call, how);
        };
        if let Kind::Wait { stop, .. } = &mut asked.kind {
            *stop = Some(how);
        }
        if let Some(link) = self.by_peer.get_mut(&to) {
            // It waits no longer: a node that says nothing now is not at work.
            if asked.is_answered_soon() && !core::mem::replace(&mut asked.is_owed, true) {
                link.owes(moment.now);
            }
            let stop = ToNode::StopWaiting {
                call,
                namespace,
                stop: how,
            };
            link.say(moment, &stop.encode());
        }
        self.touch(to);
        if how == StopWaiting::Disarm {
            // There is no answer to that.
            self.end(call);
        }
    }

    /// No node has the poll: it was given nothing.
    fn stop_here(&mut self, call: Call, stop: StopWaiting) {
        match stop {
            StopWaiting::Take => self.refuse(call, Refusal::Unavailable),
            StopWaiting::GiveUp => self.refuse(call, Refusal::NotReady),
            StopWaiting::Disarm => self.drop_call(call),
        }
    }

    /// A call that no node has done anything about waits for another way. A poll that was told to stop meanwhile does so.
    pub(super) fn park_again(&mut self, now: Timestamp, call: Call) {
        match self.calls.get(call).map(|asked| asked.kind) {
            Some(Kind::Wait {
                stop: Some(stop), ..
            }) => self.stop_here(call, stop),
            Some(_) => self.park(now, call),
            None => {}
        }
    }
}
