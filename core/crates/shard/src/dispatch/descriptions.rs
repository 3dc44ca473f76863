//! Descriptions of partitions and their locations, for listings and for explanations of refusals.

use headrace_catalog::{Action, Partition, Topic};
use headrace_link::Refusal;
use headrace_model::Namespace;
use headrace_partition::Response;
use headrace_wire::{
    PartitionState,
    command::TopicPath,
    response::{PartitionDescription, encode_list},
};

use super::{Context, Handled, Outcome};
use crate::{Shard, owner::Owner};

impl Context<'_> {
    pub(super) fn describe_partitions(&self, request: &TopicPath<'_>) -> Handled {
        let topic = self.topic(request.stream, request.topic, Action::ReadTopic)?;
        let described: Vec<PartitionDescription<'_>> = (topic.partitions.iter())
            .map(|partition| self.description(topic, partition))
            .collect();
        Ok(Outcome::payload(|out| encode_list(&described, out)))
    }

    fn description(&self, topic: &Topic, partition: &Partition) -> PartitionDescription<'_> {
        let statistics = &partition.statistics;
        let holder = self.catalog.leader(partition.namespace);
        let state = match self.shard.config.owner(self.catalog, partition.namespace) {
            Owner::Nowhere => PartitionState::Unplaced,
            Owner::Remote { .. }
                if !holder.is_some_and(|node| self.shard.routing.links.reaches(node)) =>
            {
                PartitionState::Unreachable
            }
            _ if statistics.failed() => PartitionState::Failed,
            Owner::Here | Owner::Shard(_) | Owner::Remote { .. } => PartitionState::Serving,
        };
        PartitionDescription {
            id: partition.id.0,
            state,
            node_id: holder.map_or(0, |node| node.id.0),
            node: holder.map_or("", |node| &node.name),
            first_offset: statistics.first_offset(),
            next_deletion_at: next_deletion(topic, partition),
        }
    }
}

/// Time from which the oldest segment may be deleted for its age, as far as known: its newest message decides.
fn next_deletion(topic: &Topic, partition: &Partition) -> u64 {
    let newest = partition.statistics.oldest_segment_timestamp();
    if newest == 0 || !topic.expires() || !partition.statistics.is_cleaned() {
        return 0;
    }
    newest.saturating_add(topic.message_expiry_micros)
}

impl Shard {
    /// Explanatory text of a refusal, for connections that have asked for it.
    pub(crate) fn explanation(
        &mut self,
        namespace: Namespace,
        result: &Result<Response, Refusal>,
    ) -> Option<String> {
        let Err(Refusal::Unavailable) = result else {
            return None;
        };
        let catalog = self.catalog.load();
        let stream = catalog.stream_by_id(namespace.stream())?;
        let topic = stream.topic_by_id(namespace.topic())?;
        let partition = namespace.partition();
        let place = format!(
            "partition {partition} of topic {:?} in stream {:?}",
            topic.name, stream.name
        );
        Some(match catalog.leader(namespace) {
            None => format!("{place} is placed on no node"),
            Some(node) if node.is_live => {
                format!("{place} is on node {:?}, which is not reached", node.name)
            }
            Some(node) => format!(
                "{place} is on node {:?}, which is not reached: the cluster does not hear from it",
                node.name
            ),
        })
    }
}
