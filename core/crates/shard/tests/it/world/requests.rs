//! Requests of clients.

use headrace_wire::{
    Command, Consumer, ConsumerKind, Identifier, Partitioning, PollingStrategy,
    batch::BatchBuilder,
    command::{ConsumerOffsetPath, LoginUser, PollMessages, SendMessages},
};

/// Password of root, who has all permissions.
pub const PASSWORD: &str = "secret";

/// A login as root.
pub fn login(password: &str) -> Command<'_> {
    Command::LoginUser(LoginUser {
        username: "root",
        password,
        version: "",
        context: "",
    })
}

/// A batch of these payloads.
pub fn batch(payloads: &[&[u8]]) -> BatchBuilder {
    let mut batch = BatchBuilder::new();
    for payload in payloads {
        batch.push(0, 1, payload, &[]).expect("small");
    }
    batch
}

/// A batch for a partition of the topic.
pub fn to_partition(batch: &BatchBuilder, partition: u32) -> SendMessages<'_> {
    batch.request(
        Identifier::Named("s"),
        Identifier::Named("t"),
        Partitioning::PartitionId(partition),
    )
}

/// A consumer outside a group.
pub fn consumer(id: u32) -> Consumer<'static> {
    Consumer {
        kind: ConsumerKind::Consumer,
        id: Identifier::Numeric(id),
    }
}

/// The stored offset of consumer 1.
pub fn offset_path(partition: u32) -> ConsumerOffsetPath<'static> {
    ConsumerOffsetPath {
        consumer: consumer(1),
        stream: Identifier::Numeric(0),
        topic: Identifier::Numeric(0),
        partition_id: Some(partition),
    }
}

/// A poll of consumer 1 with automatic commit of the offset.
pub fn polling(partition: u32, strategy: PollingStrategy, count: u32) -> PollMessages<'static> {
    PollMessages {
        consumer: consumer(1),
        stream: Identifier::Numeric(0),
        topic: Identifier::Named("t"),
        partition_id: Some(partition),
        strategy,
        count,
        auto_commit: true,
    }
}

/// A poll from the first message on.
pub fn poll_first(partition: u32, count: u32, auto_commit: bool) -> PollMessages<'static> {
    PollMessages {
        auto_commit,
        ..polling(partition, PollingStrategy::First, count)
    }
}
