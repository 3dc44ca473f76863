//! Requests that consist of identifiers only.

use super::{GroupPath, StreamPath, TopicPath};

/// Request that consists of a path only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path<'a> {
    /// Path of a stream.
    Stream(StreamPath<'a>),
    /// Path of a topic.
    Topic(TopicPath<'a>),
    /// Path of a consumer group.
    Group(GroupPath<'a>),
}
