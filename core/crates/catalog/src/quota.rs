//! Quotas of users and topics.

use headrace_proto::catalog::v1;

/// Limits of what a user or a topic uses. 0 stands for no limit, and the default limits nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Bytes of messages sent per second.
    pub sent_bytes_per_second: u64,
    /// Bytes of messages read per second.
    pub read_bytes_per_second: u64,
    /// Bytes that a topic holds in all of its partitions; 0 for a user.
    pub held_bytes: u64,
    /// Connections that a user has at a time; 0 for a topic.
    pub connections: u32,
}

impl Quota {
    /// Return whether anything is limited.
    pub fn is_limited(&self) -> bool {
        *self != Self::default()
    }

    /// Build the quota of a record. A record without one, such as those of earlier releases, has no limits.
    pub(crate) fn from_record(record: Option<v1::Quota>) -> Self {
        record.map_or_else(Self::default, |record| Self {
            sent_bytes_per_second: record.sent_bytes_per_second,
            read_bytes_per_second: record.read_bytes_per_second,
            held_bytes: record.held_bytes,
            connections: record.connections,
        })
    }

    /// Make the record. `None` without limits, so that each quota has one encoding.
    pub(crate) fn to_record(self) -> Option<v1::Quota> {
        self.is_limited().then_some(v1::Quota {
            sent_bytes_per_second: self.sent_bytes_per_second,
            read_bytes_per_second: self.read_bytes_per_second,
            held_bytes: self.held_bytes,
            connections: self.connections,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_without_limits_is_that_of_no_quota() {
        assert_eq!(Quota::from_record(None), Quota::default());
        let empty = Quota::from_record(Some(v1::Quota::default()));
        assert!(!empty.is_limited());
        assert_eq!(empty.to_record(), None);
    }

    #[test]
    fn each_limit_alone_is_kept() {
        let none = v1::Quota::default();
        for record in [
            v1::Quota {
                sent_bytes_per_second: 1,
                ..none
            },
            v1::Quota {
                read_bytes_per_second: 1,
                ..none
            },
            v1::Quota {
                held_bytes: 1,
                ..none
            },
            v1::Quota {
                connections: 1,
                ..none
            },
        ] {
            let quota = Quota::from_record(Some(record));
            assert!(quota.is_limited());
            assert_eq!(quota.to_record(), Some(record));
        }
    }
}
