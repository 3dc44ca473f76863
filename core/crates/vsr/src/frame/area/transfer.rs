//! Areas of the frames for state transfer to a replica that lags too far behind to catch up from the log.

use super::definition::area;

/// Maximum length of one [`Chunk`] in bytes.
pub const CHUNK_BYTES_MAX: u32 = 1024 * 1024;

/// Maximum number of artifacts in one manifest.
pub const ARTIFACTS_MAX: u32 = 4096;

area! {
    /// Request for the manifest of the newest checkpoint.
    RequestState {
        /// Echoed in the answer.
        nonce: u128 = 128,
        /// Lowest useful op: the requester cannot use an older checkpoint.
        op_min: u64 = 144,
    }
}

area! {
    /// Contents of a checkpoint. The body holds the prepare's header and the artifacts
    /// ([`manifest`](crate::frame::body::manifest)).
    StateManifest {
        /// Copied from the [`RequestState`].
        nonce: u128 = 128,
        /// Digest of the state.
        checkpoint_id: u128 = 144,
        /// Op of the checkpoint.
        checkpoint_op: u64 = 160,
        /// Number of artifacts in the body.
        artifacts: u32 = 168,
    }
}

area! {
    /// Request for a part of an artifact.
    RequestChunk {
        /// Echoed in the answer.
        nonce: u128 = 128,
        /// Id of the artifact.
        id: u64 = 144,
        /// Offset of the first byte.
        offset: u64 = 152,
        /// Length in bytes, 1 to [`CHUNK_BYTES_MAX`].
        len: u32 = 160,
    }
}

area! {
    /// Part of an artifact; the body is its bytes.
    Chunk {
        /// Copied from the [`RequestChunk`].
        nonce: u128 = 128,
        /// Copied from the [`RequestChunk`].
        id: u64 = 144,
        /// Copied from the [`RequestChunk`].
        offset: u64 = 152,
        /// Length of the body in bytes: as requested, or less at the end of the artifact.
        len: u32 = 160,
    }
}
