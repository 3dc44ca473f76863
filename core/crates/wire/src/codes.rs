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

            /// Code of the value on the wire.
            pub const fn code(self) -> u8 {
                self as u8
            }
        }

        impl TryFrom<u8> for $name {
            type Error = Malformed;

            /// Fails with [`Malformed::UnknownCode`], which maps to status 3.
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
    /// Compression that clients apply to the payloads of a topic. The server stores and returns it, but never acts on
    /// it.
    CompressionAlgorithm {
        /// Uncompressed.
        None = 1,
        /// Gzip.
        Gzip = 2,
    }
}

codes! {
    /// Login state of a user.
    UserStatus {
        /// May log in.
        Active = 1,
        /// May not log in.
        Inactive = 2,
    }
}

codes! {
    /// Outcome of a commit or abort of a transaction.
    TransactionOutcome {
        /// The command took effect: the batch is committed, or aborted.
        Applied = 1,
        /// The batch was committed earlier; nothing was changed.
        AlreadyCommitted = 2,
    }
}

codes! {
    /// Transport of a client connection.
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
    /// Compression of the entries of a snapshot archive.
    SnapshotCompression {
        /// Uncompressed.
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
    /// Entry of a snapshot archive.
    SnapshotKind {
        /// Files of the data directory.
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
    /// Role of a node of a cluster.
    NodeRole {
        /// Clients should connect to this node.
        Leader = 0,
        /// Clients should connect to the leader instead.
        Follower = 1,
    }
}

codes! {
    /// State of a node of a cluster.
    NodeStatus {
        /// Serving.
        Healthy = 0,
        /// Starting: does not serve yet.
        Starting = 1,
        /// Stopping: does not serve any more.
        Stopping = 2,
        /// Does not answer.
        Unreachable = 3,
        /// Taken out of service on purpose.
        Maintenance = 4,
        /// Defined, but official clients cannot decode it: never send it.
        Unknown = 5,
    }
}

codes! {
    /// State of a partition.
    PartitionState {
        /// The partition is served.
        Serving = 1,
        /// The partition has closed itself after a failure.
        Failed = 2,
        /// The node of the partition is unreachable.
        Unreachable = 3,
        /// The partition is assigned to no node.
        Unplaced = 4,
    }
}

codes! {
    /// Action of a `WatchPartitions` request on the listed partitions.
    WatchAction {
        /// Start notifications about them.
        Add = 1,
        /// Stop notifications about them.
        Remove = 2,
        /// Start notifications about them that name the openings of their logs.
        AddNamingOpenings = 3,
    }
}

impl SnapshotKind {
    /// Name of the archive entry without `.txt`; [`SnapshotKind::All`] has no entry of its own.
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
