//! Areas of the frames for view changes.

use super::definition::{area, reasons};

reasons! {
    /// Reason why a replica votes to leave a view.
    VoteReason {
        /// The author has heard nothing from the primary.
        Silence = 1,
        /// The author is the primary and steps down.
        Abdication = 2,
        /// The view change has taken too long.
        Stalled = 3,
        /// The author would be the primary, but lacks entries that only a state transfer can supply.
        Forfeit = 4,
        /// Announcement, not a vote: the author is in that view already.
        Announcement = 5,
    }
}

area! {
    /// Vote for the view in the header, or announcement of it.
    StartViewChange {
        /// Current view of the author.
        sender_view: u32 = 128,
        /// Last view whose log the author has adopted.
        log_view: u32 = 132,
        /// Highest op of the author.
        op: u64 = 136,
        /// Highest op known to be committed.
        commit_max: u64 = 144,
        /// Reason for the vote.
        reason: VoteReason = 152,
    }
}

area! {
    /// Summary of the author's log, for the primary of the view in the header. The body is the suffix of the log:
    /// headers from `op` down, blank where unknown; bit `i` of the bit sets refers to `op - i`.
    DoViewChange {
        /// Highest op of the log.
        op: u64 = 128,
        /// Highest op that was executed.
        commit_min: u64 = 136,
        /// Highest op known to be committed.
        commit_max: u64 = 144,
        /// Op of the durable checkpoint.
        checkpoint_op: u64 = 152,
        /// Last view whose log the author has adopted.
        log_view: u32 = 160,
        /// Number of headers in the body: 1 to 33.
        header_count: u32 = 164,
        /// Highest op up to which every operation above the checkpoint is stored here, undamaged and linked.
        intact_op: u64 = 168,
        /// Checksum of the prepare `whole_op`.
        intact_checksum: u128 = 176,
        /// Head of the log when `log_view` began.
        view_start_op: u64 = 192,
        /// Last view that began with a declared loss; 0 for none.
        loss_view: u32 = 200,
        /// "I never held this prepare durably."
        nack_bitset: u128 = 224,
        /// "I can serve the body."
        present_bitset: u128 = 240,
    }
}

area! {
    /// Log at the beginning of the view in the header, or its current log. The body is the suffix: headers from `op`
    /// down to the commit point, none unknown.
    StartView {
        /// Copied from the [`RequestStartView`] that it answers; 0 if unsolicited.
        nonce: u128 = 128,
        /// Digest of the primary's durable checkpoint; 0 for none.
        checkpoint_id: u128 = 144,
        /// Highest op of the log.
        op: u64 = 160,
        /// Highest op known to be committed.
        commit_max: u64 = 168,
        /// Op of the primary's durable checkpoint.
        checkpoint_op: u64 = 176,
        /// Number of headers in the body: 1 to 33.
        header_count: u32 = 184,
        /// Last view that began with a declared loss; 0 for none.
        loss_view: u32 = 188,
        /// Head of the log when the view began.
        view_start_op: u64 = 192,
    }
}

area! {
    /// Request for a [`StartView`].
    RequestStartView {
        /// Echoed in the answer, which is thereby known to be newer than the request.
        nonce: u128 = 128,
        /// Last view whose log the author has adopted.
        log_view: u32 = 144,
        /// Highest op of the author.
        op: u64 = 152,
    }
}
