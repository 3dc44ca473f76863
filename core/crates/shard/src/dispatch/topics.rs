//! Topics: queries from the catalog, changes through the control plane.

use headrace_catalog::{Action, Partition, Topic};
use headrace_model::limits;
use headrace_proto::metadata::v1::{self as metadata, command::Operation};
use headrace_wire::{
    CompressionAlgorithm, Status,
    command::{CreateTopic, StreamPath, TopicPath, UpdateTopic},
    response::{PartitionInfo, TopicHeader},
};

use super::{Context, Handled, Outcome, check_new_name};

/// Convert a topic to the binary protocol.
pub(crate) fn topic_header(topic: &Topic) -> TopicHeader<'_> {
    let totals = topic.totals();
    TopicHeader {
        id: topic.id.0,
        created_at: topic.created_at.0,
        partitions_count: topic.partitions_count(),
        message_expiry: topic.message_expiry_for_clients(),
        compression: topic.compression,
        max_topic_size: topic.max_size_for_clients(),
        replication_factor: topic.replication_factor,
        size_bytes: totals.size_bytes,
        messages_count: totals.messages_count,
        name: &topic.name,
    }
}

/// Return the algorithm of a code that the catalog accepted.
pub(super) fn compression(code: u8) -> CompressionAlgorithm {
    CompressionAlgorithm::try_from(code).unwrap_or(CompressionAlgorithm::None)
}

fn partition_info(partition: &Partition) -> PartitionInfo {
    let statistics = &partition.statistics;
    PartitionInfo {
        id: partition.id.0,
        created_at: partition.created_at.0,
        segments_count: statistics.segments_count(),
        current_offset: statistics.current_offset(),
        size_bytes: statistics.size_bytes(),
        messages_count: statistics.messages_count(),
    }
}

impl Context<'_> {
    pub(super) fn get_topic(&self, request: &TopicPath<'_>) -> Handled {
        let found = self.topic_if(request.stream, request.topic, Action::ReadTopic)?;
        let Some(topic) = found else {
            return Ok(Outcome::Missing);
        };
        Ok(Outcome::payload(|out| {
            topic_header(topic).encode(out);
            for partition in &topic.partitions {
                partition_info(partition).encode(out);
            }
        }))
    }

    pub(super) fn get_topics(&self, request: &StreamPath<'_>) -> Handled {
        let Some(stream) = self.stream_if(request.stream, Action::ListTopics)? else {
            return Ok(Outcome::Missing);
        };
        Ok(Outcome::payload(|out| {
            for topic in stream.topics() {
                topic_header(topic).encode(out);
            }
        }))
    }

    pub(super) fn create_topic(&self, request: &CreateTopic<'_>) -> Handled {
        if request.partitions_count > limits::PARTITIONS_PER_COMMAND_MAX {
            return Err(Status::TOO_MANY_PARTITIONS);
        }
        let compression = request.compression()?;
        let stream = self.stream(request.stream, Action::CreateTopic)?;
        check_new_name(request.name, "")?;
        let command = metadata::CreateTopic {
            stream_id: stream.id.0,
            name: request.name.into(),
            partitions_count: request.partitions_count,
            compression: compression.code().into(),
            message_expiry_micros: request.message_expiry,
            max_size_bytes: request.max_topic_size,
            replication_factor: request.replication_factor.into(),
            durability: 0,
        };
        Ok(self.propose_in(stream, Operation::CreateTopic(command)))
    }

    pub(super) fn update_topic(&self, request: &UpdateTopic<'_>) -> Handled {
        let compression = request.compression()?;
        let topic = self.manageable_topic(&TopicPath {
            stream: request.stream,
            topic: request.topic,
        })?;
        check_new_name(request.name, &topic.name)?;
        let command = metadata::UpdateTopic {
            stream_id: topic.stream_id.0,
            topic_id: topic.id.0,
            name: request.name.into(),
            compression: compression.code().into(),
            message_expiry_micros: request.message_expiry,
            max_size_bytes: request.max_topic_size,
            replication_factor: request.replication_factor.into(),
            // Set by the gateway, which resolves the default.
            message_expiry_is_default: false,
            max_size_is_default: false,
        };
        Ok(self.propose_on(topic, Operation::UpdateTopic(command)))
    }

    pub(super) fn delete_topic(&self, request: &TopicPath<'_>) -> Handled {
        let topic = self.manageable_topic(request)?;
        let command = metadata::DeleteTopic {
            stream_id: topic.stream_id.0,
            topic_id: topic.id.0,
        };
        Ok(self.propose_on(topic, Operation::DeleteTopic(command)))
    }

    pub(super) fn purge_topic(&self, request: &TopicPath<'_>) -> Handled {
        let topic = self.manageable_topic(request)?;
        let command = metadata::PurgeTopic {
            stream_id: topic.stream_id.0,
            topic_id: topic.id.0,
        };
        Ok(self.propose_on(topic, Operation::PurgeTopic(command)))
    }

    pub(super) fn manageable_topic(&self, request: &TopicPath<'_>) -> Result<&Topic, Status> {
        Ok(self.topic(request.stream, request.topic, Action::ManageTopic)?)
    }
}
