//! Commands and responses of every kind, built from arbitrary values.

use alloc::string::String;
use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::batch::INDEX_BYTES;
use crate::command::*;
use crate::permissions::Permissions;
use crate::permissions::tests::permissions;
use crate::response::*;
use crate::{
    Command, CommandCode, Consumer, ConsumerKind, Identifier, Partitioning, PollingStrategy, Quota,
    SendMessages, Status,
};

/// Owned values, which commands and responses borrow.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    name: String,
    text: String,
    password: String,
    items: usize,
    small: u8,
    medium: u32,
    large: u64,
    ratio: f32,
    bytes: Vec<u8>,
    numbers: Vec<u32>,
    strategy: PollingStrategy,
    permissions: Option<Permissions>,
}

pub(crate) fn values() -> impl Strategy<Value = Values> {
    let strategy = prop_oneof![
        any::<u64>().prop_map(PollingStrategy::Offset),
        any::<u64>().prop_map(PollingStrategy::Timestamp),
        Just(PollingStrategy::First),
        Just(PollingStrategy::Last),
        Just(PollingStrategy::Next),
    ];
    (
        ("\\PC{1,60}", "\\PC{0,60}", "\\PC{0,30}"),
        0_usize..4,
        (any::<u8>(), any::<u32>(), any::<u64>(), any::<f32>()),
        vec(any::<u8>(), 0..=255),
        vec(any::<u32>(), 0..5),
        strategy,
        proptest::option::of(permissions()),
    )
        .prop_map(
            |(texts, items, numbers, bytes, ids, strategy, permissions)| Values {
                name: texts.0,
                text: texts.1,
                password: texts.2,
                items,
                small: numbers.0,
                medium: numbers.1,
                large: numbers.2,
                ratio: numbers.3,
                bytes,
                numbers: ids,
                strategy,
                permissions,
            },
        )
}

include!(concat!(env!("OUT_DIR"), "/samples.rs"));

/// Fields, and the types that are written by hand.
impl Values {
    fn flag(&self, index: usize) -> bool {
        self.small.rotate_left(u32::try_from(index).expect("few")) & 1 == 1
    }

    fn pick<T: Copy>(&self, all: &[T]) -> T {
        all[usize::from(self.small) % all.len()]
    }

    fn count(&self) -> u32 {
        u32::try_from(self.items).expect("few")
    }

    fn identifier(&self, index: usize) -> Identifier<'_> {
        if self.flag(index) {
            Identifier::Numeric(self.medium.rotate_left(7))
        } else {
            Identifier::Named(&self.name)
        }
    }

    fn consumer(&self) -> Consumer<'_> {
        Consumer {
            kind: self.pick(&[ConsumerKind::Consumer, ConsumerKind::Group]),
            id: self.identifier(2),
        }
    }

    fn get_snapshot(&self) -> GetSnapshot<'_> {
        GetSnapshot {
            compression_code: self.small,
            kind_codes: &self.bytes,
        }
    }

    fn set_trace_context(&self) -> SetTraceContext {
        SetTraceContext {
            trace_id: u128::from(self.large) << 60,
            span_id: self.large,
            flags: self.small,
        }
    }

    fn issue_ticket(&self) -> IssueTicket<'_> {
        IssueTicket {
            stream: self.identifier(0),
            topic: self.identifier(1),
            read: self.flag(2),
            write: self.flag(3) || !self.flag(2),
            lifetime_seconds: self.medium,
        }
    }

    /// Batch whose blocks have the right sizes; decoding does not inspect their content.
    fn send_messages(&self) -> SendMessages<'_> {
        let messages_count = self.bytes.len() / INDEX_BYTES;
        let (indexes, messages) = self.bytes.split_at(messages_count * INDEX_BYTES);
        SendMessages {
            stream: self.identifier(0),
            topic: self.identifier(1),
            partitioning: match self.small % 3 {
                0 => Partitioning::MessagesKey(&self.bytes),
                1 => Partitioning::PartitionId(self.medium),
                _ => Partitioning::Balanced,
            },
            messages_count: u32::try_from(messages_count).expect("few"),
            indexes,
            messages,
        }
    }

    fn quota(&self) -> Quota {
        crate::quota::tests::quota(self.large, self.medium)
    }

    fn quota_record(&self) -> QuotaRecord<'_> {
        let subject = if self.flag(0) {
            QuotaSubject::User {
                id: self.medium,
                name: &self.name,
            }
        } else {
            QuotaSubject::Topic {
                stream_id: self.medium,
                topic_id: self.medium.rotate_left(3),
                stream: &self.name,
                topic: &self.name,
            }
        };
        QuotaRecord {
            subject,
            quota: self.quota(),
        }
    }

    fn polled(&self) -> Polled<'_> {
        Polled {
            header: PolledHeader {
                partition_id: self.medium,
                current_offset: self.large,
                messages_count: self.count(),
            },
            message_bytes: &self.bytes,
        }
    }

    fn read_answer(&self) -> ReadAnswer<'_> {
        ReadAnswer {
            gap: ReadGap {
                from: 3,
                to: self.large.max(4),
            },
            polled: self.polled(),
        }
    }

    fn user_details(&self) -> UserDetails<'_> {
        UserDetails {
            user: self.user_header(),
            permissions: self.permissions.clone(),
        }
    }

    fn group_member(&self) -> GroupMember {
        GroupMember {
            id: self.medium,
            partitions: self.numbers.clone(),
        }
    }
}
