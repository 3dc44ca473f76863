//! Partitions of a watch request.

use headrace_catalog::Action;
use headrace_model::PartitionId;
use headrace_wire::{Status, WatchAction, command::WatchPartitions};

use super::{Context, Handled, Outcome, lookups::find_topic};

impl Context<'_> {
    /// Add all partitions of the request or none. Partitions to be removed that are not watched are ignored.
    pub(super) fn watch_partitions(&self, request: &WatchPartitions<'_>) -> Handled {
        let is_adding = request.action != WatchAction::Remove;
        let mut places = Vec::new();
        for wanted in &request.topics {
            let topic = if is_adding {
                self.topic(wanted.stream, wanted.topic, Action::Poll)?
            } else {
                // Partitions to be removed need not exist.
                let stream = self.find_stream(wanted.stream);
                let Ok(topic) = find_topic(stream, wanted.topic) else {
                    continue;
                };
                topic
            };
            for id in &wanted.partition_ids {
                match topic.partition(PartitionId(*id)) {
                    Some(partition) => places.push((partition.namespace, partition.incarnation)),
                    None if is_adding => return Err(Status::PARTITION_NOT_FOUND),
                    None => {}
                }
            }
        }
        Ok(Outcome::Watch {
            action: request.action,
            places,
        })
    }
}
