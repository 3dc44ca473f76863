//! From one view to the next.

use super::definition::{area, reasons};

reasons! {
    /// Why a replica votes to leave a view.
    VoteReason {
        /// It has heard nothing from the primary.
        Silence = 1,
        /// It is the primary and steps down.
        Abdication = 2,
        /// The change to the view has taken too long.
        Stalled = 3,
        /// It would be the primary but lacks what only a state transfer can give.
        Forfeit = 4,
        /// No vote but news: the author is in that view already.
        Announcement = 5,
    }
}

area! {
    /// A vote for the view in the header, or the announcement of it.
    StartViewChange {
        /// The view that the author is in.
        sender_view: u32 = 128,
        /// The last view whose log the author has adopted.
        log_view: u32 = 132,
        /// The author's highest op.
        op: u64 = 136,
        /// The highest op known to be committed.
        commit_max: u64 = 144,
        /// Why.
        reason: VoteReason = 152,
    }
}

area! {
    /// What the author's log holds, for the primary of the view in the header. The body is the suffix of the log: headers
    /// from `op` down, blank where unknown; bit `i` of the bit sets is about `op - i`.
    DoViewChange {
        /// The highest op of the log.
        op: u64 = 128,
        /// The highest op applied.
        commit_min: u64 = 136,
        /// The highest op known to be committed.
        commit_max: u64 = 144,
        /// The op of the durable checkpoint.
        checkpoint_op: u64 = 152,
        /// The last view whose log the author has adopted.
        log_view: u32 = 160,
        /// Headers in the body: 1 to 33.
        header_count: u32 = 164,
        /// The highest op up to which everything from the checkpoint on is here, undamaged and linked.
        whole_op: u64 = 168,
        /// Checksum of the prepare `whole_op`.
        whole_checksum: u128 = 176,
        /// The head with which `log_view` began.
        view_start_op: u64 = 192,
        /// The last view that began with a declared loss; 0 for none.
        loss_view: u32 = 200,
        /// "I never held this prepare durably."
        nack_bitset: u128 = 224,
        /// "I can serve the body."
        present_bitset: u128 = 240,
    }
}

area! {
    /// The log with which the view in the header begins, or that it has now. The body is its suffix: headers from `op`
    /// down to the commit point, none unknown.
    StartView {
        /// From the [`RequestStartView`] that it answers; 0 when none.
        nonce: u128 = 128,
        /// Digest of the primary's durable checkpoint; 0 for none.
        checkpoint_id: u128 = 144,
        /// The highest op of the log.
        op: u64 = 160,
        /// The highest op known to be committed.
        commit_max: u64 = 168,
        /// The op of the primary's durable checkpoint.
        checkpoint_op: u64 = 176,
        /// Headers in the body: 1 to 33.
        header_count: u32 = 184,
        /// The last view that began with a declared loss; 0 for none.
        loss_view: u32 = 188,
        /// The head with which the view began.
        view_start_op: u64 = 192,
    }
}

area! {
    /// Asks for a [`StartView`].
    RequestStartView {
        /// Comes back in the answer, which thereby is known to be younger than the question.
        nonce: u128 = 128,
        /// The last view whose log the author has adopted.
        log_view: u32 = 144,
        /// The author's highest op.
        op: u64 = 152,
    }
}
