//! Commands on partitions and their segments.

use headrace_catalog::Action;
use headrace_model::{PartitionId, limits};
use headrace_partition::Request;
use headrace_proto::metadata::v1::{self as metadata, command::Operation};
use headrace_wire::{
    Status,
    command::{DeleteSegments, PartitionsCount, TopicPath},
};

use super::{Context, Handled, Outcome};

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
        })
    }
}
