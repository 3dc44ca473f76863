//! Small enumerations, one byte each on the wire.

use crate::Malformed;

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $code:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_doc])* $variant = $code,)+
        }

        impl $name {
            /// Every value, in the order of the codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The byte on the wire.
            pub const fn code(self) -> u8 {
                self as u8
            }
        }

        impl TryFrom<u8> for $name {
            type Error = Malformed;

            /// Fails with [`Malformed::UnknownCode`], which as a status is 3.
            fn try_from(code: u8) -> Result<Self, Malformed> {
                match code {
                    $($code => Ok(Self::$variant),)+
                    code => Err(Malformed::UnknownCode(code)),
                }
            }
        }
    };
}

codes! {
    /// How clients compress the payloads of a topic: stored and echoed, never acted upon by the server.
    CompressionAlgorithm {
        /// Not at all.
        None = 1,
        /// With gzip.
        Gzip = 2,
    }
}

codes! {
    /// Whether a user may log in.
    UserStatus {
        /// May log in.
        Active = 1,
        /// May not log in.
        Inactive = 2,
    }
}

codes! {
    /// What has become of a transaction's batch.
    TransactionOutcome {
        /// What was asked: it is committed, or given up.
        Done = 1,
        /// It was committed before; nothing was changed.
        AlreadyCommitted = 2,
    }
}

codes! {
    /// What a client is connected by.
    Transport {
        /// TCP, with or without TLS.
        Tcp = 1,
        /// QUIC.
        Quic = 2,
        /// HTTP.
        Http = 3,
        /// WebSocket.
        WebSocket = 4,
    }
}

codes! {
    /// How the entries of a snapshot archive are compressed.
    SnapshotCompression {
        /// Not compressed.
        Stored = 1,
        /// Deflate.
        Deflated = 2,
        /// Bzip2.
        Bzip2 = 3,
        /// Zstandard.
        Zstd = 4,
        /// LZMA.
        Lzma = 5,
        /// XZ.
        Xz = 6,
    }
}

codes! {
    /// What a snapshot archive may contain.
    SnapshotKind {
        /// The files of the data folder.
        FilesystemOverview = 1,
        /// The processes of the machine.
        ProcessList = 2,
        /// CPU, memory and disks.
        ResourceUsage = 3,
        /// A fixed text, for trying the command out.
        Test = 4,
        /// The log of the server.
        ServerLogs = 5,
        /// The effective configuration.
        ServerConfig = 6,
        /// Everything except the test; stands alone in a request.
        All = 100,
    }
}

codes! {
    /// The role of a node of a cluster.
    NodeRole {
        /// Clients should talk to this one.
        Leader = 0,
        /// Clients should talk to the leader.
        Follower = 1,
    }
}

codes! {
    /// The state of a node of a cluster.
    NodeStatus {
        /// Serving.
        Healthy = 0,
        /// Not serving yet.
        Starting = 1,
        /// Not serving any more.
        Stopping = 2,
        /// Not answering.
        Unreachable = 3,
        /// Taken out of service on purpose.
        Maintenance = 4,
        /// Defined, but official clients cannot decode it: never send it.
        Unknown = 5,
    }
}

codes! {
    /// Whether a partition is served.
    PartitionState {
        /// It is.
        Serving = 1,
        /// It has closed itself after a failure.
        Failed = 2,
        /// Its node is not reached.
        Unreachable = 3,
        /// It is placed on no node.
        Unplaced = 4,
    }
}

codes! {
    /// What to do with the partitions of a `WatchPartitions` request.
    WatchAction {
        /// Be notified of them.
        Add = 1,
        /// Do not be notified of them any more.
        Remove = 2,
    }
}

impl SnapshotKind {
    /// The name of the archive's entry without `.txt`; [`SnapshotKind::All`] has no entry of its own.
    pub const fn entry_name(self) -> Option<&'static str> {
        match self {
            Self::FilesystemOverview => Some("filesystem_overview"),
            Self::ProcessList => Some("process_list"),
            Self::ResourceUsage => Some("resource_usage"),
            Self::Test => Some("test"),
            Self::ServerLogs => Some("server_logs"),
            Self::ServerConfig => Some("server_config"),
            Self::All => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;

    #[test]
    fn every_code_comes_back() {
        for code in 0..=u8::MAX {
            match SnapshotKind::try_from(code) {
                Ok(kind) => assert_eq!(kind.code(), code),
                Err(error) => assert_eq!(Status::from(error), Status::INVALID_COMMAND),
            }
        }
        assert_eq!(SnapshotKind::ALL.len(), 7);
        assert_eq!(Transport::try_from(4), Ok(Transport::WebSocket));
        assert_eq!(UserStatus::try_from(0), Err(Malformed::UnknownCode(0)));
    }

    #[test]
    fn only_everything_has_no_entry() {
        for &kind in SnapshotKind::ALL {
            assert_eq!(kind.entry_name().is_none(), kind == SnapshotKind::All);
        }
    }
}
