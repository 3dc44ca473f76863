//! Partitions and their segments.

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
        let (stream_id, topic_id) = self.manageable_topic(&TopicPath {
            stream: request.stream,
            topic: request.topic,
        })?;
        let partitions_count = request.partitions_count;
        Ok(
            self.propose(Operation::CreatePartitions(metadata::CreatePartitions {
                stream_id,
                topic_id,
                partitions_count,
            })),
        )
    }

    pub(super) fn delete_partitions(&self, request: &PartitionsCount<'_>) -> Handled {
        if request.partitions_count == 0 {
            return Err(Status::TOO_MANY_PARTITIONS);
        }
        let (stream_id, topic_id) = self.manageable_topic(&TopicPath {
            stream: request.stream,
            topic: request.topic,
        })?;
        let partitions_count = request.partitions_count;
        Ok(
            self.propose(Operation::DeletePartitions(metadata::DeletePartitions {
                stream_id,
                topic_id,
                partitions_count,
            })),
        )
    }

    pub(super) fn delete_segments(&self, request: &DeleteSegments<'_>) -> Handled {
        let topic = self.topic(request.stream, request.topic)?;
        let partition = topic
            .partition(PartitionId(request.partition_id))
            .ok_or(Status::PARTITION_NOT_FOUND)?;
        self.allow(Action::ManageTopic(topic.stream_id, topic.id))?;
        Ok(Outcome::Partition {
            namespace: partition.namespace,
            request: Request::DeleteSegments {
                count: request.segments_count,
            },
        })
    }
}
