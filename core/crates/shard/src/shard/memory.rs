//! Work on memory: caches release it, and receivers that wait for it go on.

use headrace_model::ShardId;

use super::Shard;
use crate::{api::Effect, calls::Mail, memory::Receiver};

impl Shard {
    /// Relieve memory shortage: have caches release memory, and serve waiting receivers.
    #[inline]
    pub(super) fn see_to_memory(&mut self, effects: &mut Vec<Effect>) {
        if self.memory.is_short() {
            self.reclaim(effects);
        }
        if self.memory.has_excess() {
            for key in self.memory.serve_excess(&mut self.sessions) {
                self.repeat_poll(key, effects);
            }
        }
        if self.memory.shared().is_waiting() {
            self.serve_memory_queue(effects);
        }
    }

    /// Have the caches of all shards release memory.
    fn reclaim(&mut self, effects: &mut Vec<Effect>) {
        let config = &self.present.config;
        let Some((bytes, held_bytes)) = self.memory.take_reclaim(self.present.now) else {
            return;
        };
        for to in (0..config.shards.get()).map(ShardId) {
            if to != config.shard {
                let mail = Mail::Reclaim { bytes, held_bytes };
                effects.push(Effect::Mail { to, mail });
            }
        }
        self.partitions.reclaim(bytes, held_bytes);
    }

    /// Serve waiting receivers in order, as long as memory is available.
    fn serve_memory_queue(&mut self, effects: &mut Vec<Effect>) {
        while let Some(first) = self.memory.next_served(self.present.config.shard, effects) {
            match first.id.receiver {
                Receiver::Connection(key) => self.advance(key, effects),
                Receiver::Link(peer) => {
                    let moment = self.present.moment();
                    self.routing.links.read_again(moment, peer, effects);
                    self.deliver_answers(effects);
                }
            }
            self.memory.end_served(first);
        }
    }

    /// Run work on memory that is due by time.
    pub(super) fn tick_memory(&mut self) {
        if !self.memory.is_count_due(self.present.now) {
            return;
        }
        if self.memory.pool().has_too_many_indexes() {
            self.partitions.unload_indexes();
        }
        // The catalog is shared by all shards and counted once.
        let is_first = self.present.config.shard == ShardId(0);
        let catalog = self.present.catalog.load();
        self.memory.count(
            is_first.then_some(catalog),
            self.routing.links.memory_bytes(),
            self.routing.subscriptions_count(),
        );
    }
}
