//! Stream and topic of a run.

use headrace_wire::{Identifier, Status};

use crate::{BenchConfig, Setup};
use headrace_client::{Client, ClientError, NewTopic};

/// Destination of the messages, by numeric ids, as clients use them after a look-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) stream_id: u32,
    pub(crate) topic_id: u32,
    pub(crate) partitions_count: u32,
}

impl Target {
    /// Find or create stream and topic according to the settings.
    pub(crate) fn prepare(client: &mut Client, config: &BenchConfig) -> Result<Self, ClientError> {
        let stream = Identifier::Named(&config.stream);
        let topic = Identifier::Named(&config.topic);
        if config.setup == Setup::Recreate {
            unless_refused(client.delete_stream(stream), Status::STREAM_ID_NOT_FOUND)?;
        }
        if config.setup != Setup::Existing {
            unless_refused(
                client.create_stream(&config.stream),
                Status::STREAM_NAME_ALREADY_EXISTS,
            )?;
            unless_refused(
                client.create_topic(
                    stream,
                    &NewTopic::new(&config.topic, config.partitions_to_create()),
                ),
                Status::TOPIC_NAME_ALREADY_EXISTS,
            )?;
        }
        let stream_id = client.get_stream(stream)?;
        let topic = client.get_topic(stream, topic)?;
        if topic.partitions_count == 0 {
            return Err(ClientError::InvalidSetting {
                setting: "topic",
                reason: "it has no partitions".to_owned(),
            });
        }
        Ok(Self {
            stream_id: stream_id.0,
            topic_id: topic.id.0,
            partitions_count: topic.partitions_count,
        })
    }

    pub(crate) fn stream(&self) -> Identifier<'static> {
        Identifier::Numeric(self.stream_id)
    }

    pub(crate) fn topic(&self) -> Identifier<'static> {
        Identifier::Numeric(self.topic_id)
    }

    /// Partition of actor `index` of its kind.
    pub(crate) fn partition_of(&self, index: u32) -> u32 {
        index % self.partitions_count
    }
}

fn unless_refused<T>(result: Result<T, ClientError>, expected: Status) -> Result<(), ClientError> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if error.status() == Some(expected) => Ok(()),
        Err(error) => Err(error),
    }
}
