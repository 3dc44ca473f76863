//! Polls that wait at a partition on another node, and their cancellation.

use headrace_link::{EndWait, Refusal, RequestId, ToNode};
use headrace_model::{Namespace, Timestamp};

use super::{
    Links,
    calls::{CallState, Kind},
};
use crate::{calls::Origin, moment::Moment};

impl Links {
    /// End a waiting poll.
    pub(super) fn stop_waiting(
        &mut self,
        moment: Moment<'_>,
        origin: Origin,
        namespace: Namespace,
        how: EndWait,
    ) {
        let Some(call) = self.calls.wait_of(origin.connection, namespace) else {
            return;
        };
        let Some(asked) = self.calls.get_mut(call) else {
            return;
        };
        let CallState::Sent { to, .. } = asked.state else {
            return self.stop_here(call, how);
        };
        if let Kind::Wait { stop, .. } = &mut asked.kind {
            *stop = Some(how);
        }
        if let Some(link) = self.by_peer.get_mut(&to) {
            // The poll no longer waits: a node that does not answer now is not running.
            if asked.is_answered_soon() && !core::mem::replace(&mut asked.is_answer_expected, true)
            {
                link.count_expected_answer(moment.now);
            }
            let stop = ToNode::EndWait {
                call,
                namespace,
                reaction: how,
            };
            link.queue(moment, &stop.encode());
        }
        self.touch(to);
        if how == EndWait::Cancel {
            // The node does not answer that.
            self.end(call);
        }
    }

    /// End a poll that is not at a node, without messages.
    fn stop_here(&mut self, call: RequestId, stop: EndWait) {
        match stop {
            EndWait::Take => self.refuse(call, Refusal::Unavailable),
            EndWait::Refuse => self.refuse(call, Refusal::NotReady),
            EndWait::Cancel => self.drop_call(call),
        }
    }

    /// Park a call that no node has executed, to be sent again. A poll that was asked to stop meanwhile ends.
    pub(super) fn park_again(&mut self, now: Timestamp, call: RequestId) {
        match self.calls.get(call).map(|asked| asked.kind) {
            Some(Kind::Wait {
                stop: Some(stop), ..
            }) => self.stop_here(call, stop),
            Some(_) => self.park(now, call),
            None => {}
        }
    }
}
