//! Gauges and log events of the event loop.

use headrace_model::{Level, ShardId};

use super::Host;

impl Host {
    pub(super) fn publish_gauges(&mut self) {
        let progress = self.shard.progress();
        self.gauges.publish(
            progress,
            self.shard.connections_count(),
            self.driver.counters(),
            self.state.clock.lead_micros(),
        );
        let failures = self.shard.failures();
        let failing = failures.iter().map(|(namespace, _)| *namespace).collect();
        if failing == self.state.failing {
            return;
        }
        for (namespace, reason) in &failures {
            if !self.state.failing.contains(namespace) {
                self.events
                    .push(Level::Error, format!("partition {namespace}: {reason}"));
            }
        }
        for namespace in self.state.failing.difference(&failing) {
            let message = format!("partition {namespace} recovered from its failure");
            self.events.push(Level::Info, message);
        }
        self.state.failing = failing;
        self.gauges.publish_failures(failures);
    }

    /// Report a wall clock that was set back. All shards follow the same clock, so that one of them reports it.
    pub(super) fn report_clock(&mut self) {
        if self.shard.id() == ShardId(0)
            && let Some((level, message)) = self.state.clock.take_notice()
        {
            self.events.push(level, message);
        }
    }
}
