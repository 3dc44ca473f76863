//! Commands on partitions and their segments, descriptions of them and plans of their ranges.

use headrace_catalog::{Action, Partition, Topic};
use headrace_model::{Offset, PartitionId, limits};
use headrace_partition::{RangePlan, RangeToPlan, Request};
use headrace_proto::metadata::v1::{self as metadata, command::Operation};
use headrace_ticket::Access;
use headrace_wire::{
    PartitionState, Status,
    command::{DeleteSegments, PartitionsCount, PlanRange, TopicPath},
    response::{PartitionDescription, PlannedRange, RangeSplit, encode_list},
};

use super::{Context, Handled, Outcome};
use crate::{owner::Owner, routing::links::Links};

impl Context<'_> {
    pub(super) fn create_partitions(&self, request: &PartitionsCount<'_>) -> Handled {
        if !(1..=limits::PARTITIONS_PER_COMMAND_MAX).contains(&request.partitions_count) {
            return Err(Status::TOO_MANY_PARTITIONS);
        }
        let topic = self.manageable_topic(&TopicPath {
            stream: request.stream,
            topic: request.topic,
        })?;
        let command = metadata::CreatePartitions {
            stream_id: topic.stream_id.0,
            topic_id: topic.id.0,
            partitions_count: request.partitions_count,
        };
        Ok(self.propose_on(topic, Operation::CreatePartitions(command)))
    }

    pub(super) fn delete_partitions(&self, request: &PartitionsCount<'_>) -> Handled {
        if request.partitions_count == 0 {
            return Err(Status::TOO_MANY_PARTITIONS);
        }
        let topic = self.manageable_topic(&TopicPath {
            stream: request.stream,
            topic: request.topic,
        })?;
        let command = metadata::DeletePartitions {
            stream_id: topic.stream_id.0,
            topic_id: topic.id.0,
            partitions_count: request.partitions_count,
        };
        Ok(self.propose_on(topic, Operation::DeletePartitions(command)))
    }

    pub(super) fn delete_segments(&self, request: &DeleteSegments<'_>) -> Handled {
        let topic = self.topic(request.stream, request.topic, Action::ManageTopic)?;
        let partition = topic
            .partition(PartitionId(request.partition_id))
            .ok_or(Status::PARTITION_NOT_FOUND)?;
        Ok(Outcome::Partition {
            member: None,
            namespace: partition.namespace,
            request: Request::DeleteSegments {
                count: request.segments_count,
            },
            rate: None,
        })
    }
}

impl Context<'_> {
    pub(super) fn describe_partitions(&self, request: &TopicPath<'_>, links: &Links) -> Handled {
        let topic = self.topic(request.stream, request.topic, Action::ReadTopic)?;
        let described: Vec<PartitionDescription<'_>> = (topic.partitions.iter())
            .map(|partition| self.description(topic, partition, links))
            .collect();
        Ok(Outcome::payload(|out| encode_list(&described, out)))
    }

    fn description(
        &self,
        topic: &Topic,
        partition: &Partition,
        links: &Links,
    ) -> PartitionDescription<'_> {
        let statistics = &partition.statistics;
        let holder = self.catalog.leader(partition.namespace);
        let state = match self.moment.config.owner(self.catalog, partition.namespace) {
            Owner::Nowhere => PartitionState::Unplaced,
            Owner::Remote { .. } if !holder.is_some_and(|node| links.reaches(node)) => {
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

impl Context<'_> {
    pub(super) fn plan_range(&self, request: &PlanRange<'_>) -> Handled {
        let topic = self.topic(request.stream, request.topic, Action::Poll)?;
        Ok(Outcome::Partition {
            member: None,
            namespace: self.place_of(topic, Some(request.partition_id), Access::READ)?,
            request: Request::PlanRange(RangeToPlan {
                start: Offset(request.start),
                end: Offset(request.end),
                target_bytes: request.target_bytes,
            }),
            rate: None,
        })
    }
}

/// Convert a plan to the binary protocol.
pub(super) fn planned_range(plan: &RangePlan) -> PlannedRange {
    let splits = plan.splits.iter().map(|split| RangeSplit {
        offset: split.offset.0,
        bytes: split.bytes,
    });
    PlannedRange {
        first_offset: plan.first_offset.0,
        next_offset: plan.next_offset.0,
        splits: splits.collect(),
    }
}
