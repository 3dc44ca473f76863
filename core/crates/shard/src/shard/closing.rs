//! Ends of connections: what other parts hold for them is given up first.

use headrace_catalog::Changes;
use headrace_model::Level;

use super::Shard;
use crate::{
    api::Effect,
    calls::ConnectionKey,
    sessions::{arrival::Arrival, closing::Due},
};

impl Shard {
    /// Take a new connection, in place of one without a login if there is no room.
    pub(super) fn accepted(
        &mut self,
        key: ConnectionKey,
        arrival: Arrival,
        effects: &mut Vec<Effect>,
    ) {
        if self.sessions.is_full(self.present.moment(), &arrival) {
            for leaving in self.sessions.take_unauthenticated(self.present.now) {
                self.close(leaving, effects);
            }
        }
        let moment = self.present.moment();
        self.sessions.accept(moment, key, arrival, effects);
    }

    /// Close a connection at once.
    pub(super) fn close(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        self.waiting().forget_wait(key, effects);
        self.watching().forget_watches(key, effects);
        self.serving().forget_link(key);
        self.routing.links.forget(key);
        self.sessions.remove(key, effects);
    }

    /// Start to close a connection whose WebSocket has ended.
    pub(super) fn begin_websocket_close(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        if self.sessions.concludes(key) {
            self.waiting().cancel_wait(key, effects);
            self.sessions.await_answers(self.present.now, key);
        }
    }

    /// Do what is due by time for connections.
    pub(super) fn tick_sessions(&mut self, effects: &mut Vec<Effect>) {
        let now = self.present.now;
        for key in self.sessions.take_lingered(now) {
            self.close(key, effects);
        }
        while let Some(due) = self.sessions.next_due(now) {
            match due {
                Due::Close(key) => self.close(key, effects),
                Due::Drain(key) => {
                    self.serving().drain_link(key);
                    self.sessions.touch(key);
                }
            }
        }
        self.close_slow_readers(effects);
        for (key, user) in self.sessions.take_expired(self.present.wall()) {
            let moment = self.present.moment();
            self.sessions.review_session(moment, key, effects);
            let changes = Changes::of_user(user);
            self.waiting().review_waits(&changes, effects);
            self.watching().review_watches(&changes, effects);
        }
        for key in self.sessions.take_unwanted() {
            self.close(key, effects);
        }
    }

    /// Close connections whose clients have not taken the next part of an answer for longer than its transfer may take,
    /// while others wait for the memory: requests of their users or large requests, or answers of nodes.
    fn close_slow_readers(&mut self, effects: &mut Vec<Effect>) {
        let memory = self.memory.shared();
        if !memory.has_excess() && !memory.is_waiting() && !self.routing.links.is_starved() {
            return;
        }
        let slow = self.sessions.slow_readers(self.present.now);
        if slow.is_empty() {
            return;
        }
        let (count, bytes) = (slow.len(), slow.iter().map(|(_, bytes)| bytes).sum::<u64>());
        for (key, _) in slow {
            self.close(key, effects);
        }
        effects.push(Effect::Report {
            level: Level::Warning,
            message: format!(
                "{count} connections were closed: their clients left answers of {bytes} bytes unread while others \
                 waited for memory"
            ),
        });
    }

    /// Have everything begun answered and every connection closed after it.
    pub(super) fn shut_down(&mut self, effects: &mut Vec<Effect>) {
        if !self.sessions.begin_shutdown() {
            return;
        }
        self.serving().drain_all_links();
        self.sessions.close_gracefully();
        self.waiting().end_all_waits(effects);
        self.routing.links.shut_down();
        self.sessions.touch_all();
    }

    /// Close the connections that are left when the time for answers is over, such as those of clients that do not
    /// read: an answer in flight to one of them has no end.
    pub(super) fn close_connections(&mut self, effects: &mut Vec<Effect>) {
        let keys: Vec<ConnectionKey> = (self.sessions.iter())
            .map(|connection| connection.key)
            .collect();
        for key in keys {
            self.close(key, effects);
        }
    }
}
