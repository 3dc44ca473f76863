//! Transfer of the state to a replica that is too far behind for the log.

use super::definition::area;

/// Bytes of one [`Chunk`] at most.
pub const CHUNK_BYTES_MAX: u32 = 1024 * 1024;

/// Artifacts of one manifest at most.
pub const ARTIFACTS_MAX: u32 = 4096;

area! {
    /// Asks for the manifest of the newest checkpoint.
    RequestState {
        /// Comes back in the answer.
        nonce: u128 = 128,
        /// A checkpoint below this op is of no use.
        op_min: u64 = 144,
    }
}

area! {
    /// What a checkpoint consists of: in the body, the prepare's header and the artifacts
    /// ([`manifest`](crate::frame::body::manifest)).
    StateManifest {
        /// From the [`RequestState`].
        nonce: u128 = 128,
        /// Digest of the state.
        checkpoint_id: u128 = 144,
        /// The op of the checkpoint.
        checkpoint_op: u64 = 160,
        /// Artifacts in the body.
        artifacts: u32 = 168,
    }
}

area! {
    /// Asks for a part of an artifact.
    RequestChunk {
        /// Comes back in the answer.
        nonce: u128 = 128,
        /// The artifact.
        id: u64 = 144,
        /// Where the part starts.
        offset: u64 = 152,
        /// Its length in bytes, 1 to [`CHUNK_BYTES_MAX`].
        len: u32 = 160,
    }
}

area! {
    /// A part of an artifact; the body is its bytes.
    Chunk {
        /// From the [`RequestChunk`].
        nonce: u128 = 128,
        /// From the [`RequestChunk`].
        id: u64 = 144,
        /// From the [`RequestChunk`].
        offset: u64 = 152,
        /// Length of the body in bytes: what was asked for, or less at the end of the artifact.
        len: u32 = 160,
    }
}
