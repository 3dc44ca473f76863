//! Streams: queries from the catalog, changes through the control plane.

use headrace_catalog::{Action, Stream};
use headrace_proto::metadata::v1::{self as metadata, command::Operation};
use headrace_wire::{
    Status,
    command::{CreateStream, StreamPath, UpdateStream},
    response::StreamHeader,
};

use super::{Context, Handled, Outcome, check_new_name, topics::topic_header};

/// Convert a stream to the binary protocol.
pub(crate) fn stream_header(stream: &Stream) -> StreamHeader<'_> {
    let totals = stream.totals();
    StreamHeader {
        id: stream.id.0,
        created_at: stream.created_at.0,
        topics_count: u32::try_from(stream.topics_count()).expect("at most 4096"),
        size_bytes: totals.size_bytes,
        messages_count: totals.messages_count,
        name: &stream.name,
    }
}

impl Context<'_> {
    pub(super) fn get_stream(&self, request: &StreamPath<'_>) -> Handled {
        let Some(stream) = self.stream_if(request.stream, Action::ReadStream)? else {
            return Ok(Outcome::Missing);
        };
        Ok(Outcome::payload(|out| {
            stream_header(stream).encode(out);
            for topic in stream.topics() {
                topic_header(topic).encode(out);
            }
        }))
    }

    pub(super) fn get_streams(&self) -> Handled {
        self.allow(Action::ListStreams)?;
        Ok(Outcome::payload(|out| {
            for stream in self.catalog.streams() {
                stream_header(stream).encode(out);
            }
        }))
    }

    pub(super) fn create_stream(&self, request: &CreateStream<'_>) -> Handled {
        self.allow(Action::CreateStream)?;
        check_new_name(request.name, "")?;
        // The state machine checks that the name is free: another gateway may have deleted the stream that has it.
        Ok(
            self.propose(Operation::CreateStream(metadata::CreateStream {
                name: request.name.into(),
            })),
        )
    }

    pub(super) fn update_stream(&self, request: &UpdateStream<'_>) -> Handled {
        let stream = self.manageable_stream(&StreamPath {
            stream: request.stream,
        })?;
        check_new_name(request.name, &stream.name)?;
        let command = metadata::UpdateStream {
            stream_id: stream.id.0,
            name: request.name.into(),
        };
        Ok(self.propose_in(stream, Operation::UpdateStream(command)))
    }

    pub(super) fn delete_stream(&self, request: &StreamPath<'_>) -> Handled {
        let stream = self.manageable_stream(request)?;
        let stream_id = stream.id.0;
        let command = metadata::DeleteStream { stream_id };
        Ok(self.propose_in(stream, Operation::DeleteStream(command)))
    }

    pub(super) fn purge_stream(&self, request: &StreamPath<'_>) -> Handled {
        let stream = self.manageable_stream(request)?;
        let stream_id = stream.id.0;
        let command = metadata::PurgeStream { stream_id };
        Ok(self.propose_in(stream, Operation::PurgeStream(command)))
    }

    fn manageable_stream(&self, request: &StreamPath<'_>) -> Result<&Stream, Status> {
        Ok(self.stream(request.stream, Action::ManageStream)?)
    }
}
