//! Quorum sizes.

/// Quorum sizes of the steps of the protocol. A replica counts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorums {
    /// Number of members of the group.
    pub members: u8,
    /// Number of acknowledgements that commit a prepare.
    pub replication: u8,
    /// Number of logs that a new view needs, and of votes that end the old one.
    pub view_change: u8,
    /// Number of nacks that prove that a prepare was never committed: one more than the members outside of a
    /// replication quorum.
    pub nack: u8,
}

impl Quorums {
    /// Quorums of a group, if groups of that size exist. Two and four members only occur between reconfigurations.
    pub const fn of(members: u8) -> Option<Self> {
        let (replication, view_change) = match members {
            1 => (1, 1),
            2 | 3 => (2, 2),
            4 => (3, 2),
            5 => (3, 3),
            _ => return None,
        };
        Some(Self {
            members,
            replication,
            view_change,
            nack: members - replication + 1,
        })
    }

    /// Number of members that may fail without loss of progress.
    pub const fn tolerated(self) -> u8 {
        let most = if self.replication > self.view_change {
            self.replication
        } else {
            self.view_change
        };
        self.members - most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctl_1_quorums_intersect() {
        let table = [
            (1, 1, 1, 1, 0),
            (2, 2, 2, 1, 0),
            (3, 2, 2, 2, 1),
            (4, 3, 2, 2, 1),
            (5, 3, 3, 3, 2),
        ];
        for (members, replication, view_change, nack, tolerated) in table {
            let quorums = Quorums::of(members).expect("in the table");
            assert_eq!(quorums.replication, replication);
            assert_eq!(quorums.view_change, view_change);
            assert_eq!(quorums.nack, nack);
            assert_eq!(quorums.tolerated(), tolerated);
            // A new view sees every committed operation, and no committed operation can be nacked.
            assert!(replication + view_change > members);
            assert!(replication + nack > members);
        }
        assert_eq!(Quorums::of(0), None);
        assert_eq!(Quorums::of(6), None);
    }
}
