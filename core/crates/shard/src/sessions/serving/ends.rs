//! Ends of links, with everything that waits for partitions.

use headrace_link::{EndWait, WhenReady};

use super::{Serving, frames::origin};
use crate::{calls::ConnectionKey, hosting::NotificationTarget};

impl Serving<'_> {
    /// Stop reading from a gateway and drain the link: answer everything begun, followed by the final frame. Calls
    /// without an answer at that point were not executed.
    pub(crate) fn drain_link(&mut self, key: ConnectionKey) {
        let Some(connection) = self.sessions.get_mut(key) else {
            return;
        };
        if connection.closing {
            return;
        }
        connection.closing = true;
        self.end_link_waits(key);
        self.sessions.touch(key);
    }

    /// Drain the links of all gateways.
    pub(crate) fn drain_all_links(&mut self) {
        let links = self.sessions.iter();
        let links = links.filter(|connection| connection.gateway_link.is_some());
        let keys: Vec<ConnectionKey> = links.map(|connection| connection.key).collect();
        for key in keys {
            self.drain_link(key);
        }
    }

    /// Remove the waits and watches of a closed link.
    pub(crate) fn forget_link(&mut self, key: ConnectionKey) {
        self.end_link_waits(key);
    }

    /// End all waits and watches of a link.
    fn end_link_waits(&mut self, key: ConnectionKey) {
        let Some((served, _)) = self.sessions.link_mut(key) else {
            return;
        };
        served.held = None;
        let mut stopped = Vec::new();
        served.calls.retain(|call, asked| {
            let is_notified = asked.when_ready == Some(WhenReady::Notify);
            if asked.when_ready.is_some() {
                stopped.push((*call, asked.namespace, is_notified));
            }
            !is_notified
        });
        let notified_count = stopped.iter().filter(|stopped| stopped.2).count();
        served.waiting_count -= notified_count;
        for namespace in core::mem::take(&mut served.watched) {
            self.partitions
                .unwatch(namespace, NotificationTarget::Link(key));
        }
        for (call, namespace, is_notified) in stopped {
            let stop = if is_notified {
                EndWait::Cancel
            } else {
                EndWait::Refuse
            };
            let origin = origin(self.moment, key, call);
            self.partitions.stop_waiting(origin, namespace, stop);
        }
    }
}
