//! Trust in a replica: decides whether the votes of a replica with an empty data directory count. Such a replica
//! belongs to a new group, or has lost its disk.
//!
//! A replica that lost its disk has forgotten what it acknowledged. If it voted or acknowledged as if nothing had
//! happened, a quorum could exist that does not know a committed command. So a replica with a new data directory is
//! *unproven*: it sends nothing that counts until it has learned which of the two cases applies.
//!
//! - It meets *every* other member, and none has history: the group is new, and the replica is proven. A quorum is not
//!   enough: the history may be on the slowest member.
//! - It meets a member that has history, or that knows of it: the replica *rejoins*. It follows the group and withholds
//!   acknowledgements and votes, until
//!   * every other replica has reported, on a connection dialled since this start, that it serves in the view that this
//!     replica has adopted. Then none of them holds or can receive a vote of this replica's former process for a later
//!     view, because the connections of this process have replaced those of the former one; and
//!   * every operation in the log of that view's primary is executed and durable here. This includes whatever the
//!     former process had acknowledged.
//!
//! "Every other" is what makes this safe: the only other copy of an operation that the former process acknowledged may
//! be on the member that is not heard. If that member is lost for good, the operator declares the loss, and its
//! operations are lost.
//!
//! A data directory that is an older copy of itself is worse, because it looks intact: see [`Memory`].
//!
//! The host keeps a marker in the data directory, so that a replica stays unproven across restarts. The marker is
//! removed, durably, before anything that counts is sent.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use thiserror::Error;

use crate::api::{Report, Status};
use crate::frame::Command;
use crate::quorum::Quorums;

/// Interval at which peers are asked for their claim.
const ASK_EVERY_NS: u64 = 500_000_000;

/// Claim of a replica. From it, other members distinguish a new group from a replica that lost its disk, and detect
/// a data directory that is an older copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberClaim {
    /// True if the votes and acknowledgements of the replica count.
    pub is_proven: bool,
    /// Number of process starts on its data directory.
    pub incarnation: u64,
    /// Random number of this process.
    pub process: u64,
    /// Last view whose log the replica adopted.
    pub log_view: u32,
    /// Head of its log.
    pub op: u64,
    /// True if the group has history: this replica may have acknowledged something, or has met one that may have.
    pub has_history: bool,
    /// True if the replica serves in its view.
    pub is_normal: bool,
    /// View of the replica.
    pub view: u32,
}

/// Trust in this replica: decides whether its votes and acknowledgements count.
#[derive(Debug)]
pub enum Trust {
    /// Votes and acknowledgements count.
    Proven,
    /// Undecided; these peers have no history either.
    Unproven(BTreeSet<u8>),
    /// The replica lost its disk and is rejoining the group.
    Rejoining(Rejoin),
}

/// Knowledge of a rejoining replica about the others.
#[derive(Debug, Default)]
pub struct Rejoin {
    heard: BTreeMap<u8, MemberClaim>,
    /// View that was adopted, and the head of its log at that time.
    adopted: Option<(u32, u64)>,
    ask_at_ns: u64,
}

/// Change of trust caused by an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustChange {
    /// No change.
    Nothing,
    /// The group is new: the marker may be removed.
    GroupIsNew,
    /// The group has history, and this replica has none.
    DiskWasLost,
    /// The replica again holds everything that it may have acknowledged: the marker may be removed.
    Rejoined,
}

impl Trust {
    /// Trust in a replica whose data directory has the marker.
    pub const fn unproven() -> Self {
        Self::Unproven(BTreeSet::new())
    }

    /// Return whether the votes and acknowledgements of this replica count.
    pub const fn is_proven(&self) -> bool {
        matches!(self, Self::Proven)
    }

    /// Return whether a frame of this type may be sent: one that neither contributes to a quorum nor results from such
    /// a contribution.
    pub const fn may_send(&self, command: Command) -> bool {
        self.is_proven()
            || !matches!(
                command,
                Command::PrepareOk
                    | Command::CommitOk
                    | Command::StartViewChange
                    | Command::DoViewChange
                    | Command::StartView
                    | Command::Prepare
                    | Command::Commit
            )
    }

    /// Return whether a frame of this type may be processed. An unproven replica ignores the votes and summaries of
    /// others, because its own would complete a quorum with them.
    pub const fn may_receive(&self, command: Command) -> bool {
        self.is_proven() || !matches!(command, Command::StartViewChange | Command::DoViewChange)
    }

    /// Claim of this replica. `incarnation` and `process` as in [`MemberClaim`].
    pub fn claim(&self, report: &Report, incarnation: u64, process: u64) -> MemberClaim {
        let has_history = match self {
            // A group in its first view with an empty log has nothing that a new replica could have forgotten, not even
            // a vote: replicas that start together need not wait for each other.
            Self::Proven => report.op > 0 || report.commit_max > 0 || report.view > 0,
            Self::Unproven(_) => false,
            Self::Rejoining(_) => true,
        };
        MemberClaim {
            is_proven: self.is_proven(),
            incarnation,
            process,
            log_view: report.log_view,
            op: report.op,
            has_history,
            is_normal: report.status == Status::Normal,
            view: report.view,
        }
    }

    /// Process a completed handshake with one of the `others`. `dialled`: by this replica, so that the connection has
    /// replaced one of its former process.
    pub fn on_handshake(
        &mut self,
        peer: u8,
        claim: MemberClaim,
        dialled: bool,
        mut others: impl Iterator<Item = u8>,
    ) -> TrustChange {
        match self {
            Self::Proven => TrustChange::Nothing,
            Self::Unproven(_) if claim.has_history => {
                let mut rejoin = Rejoin::default();
                rejoin.hear(peer, claim, dialled);
                *self = Self::Rejoining(rejoin);
                TrustChange::DiskWasLost
            }
            Self::Unproven(new) => {
                new.insert(peer);
                if others.all(|other| new.contains(&other)) {
                    TrustChange::GroupIsNew
                } else {
                    TrustChange::Nothing
                }
            }
            Self::Rejoining(rejoin) => {
                rejoin.hear(peer, claim, dialled);
                TrustChange::Nothing
            }
        }
    }

    /// Process the current state of the core. `has_unsynced`: some of the data given to storage is not durable.
    /// `others` are the members that must be heard: all but those that the operator has declared lost.
    pub fn observe(
        &mut self,
        report: &Report,
        has_unsynced: bool,
        others: impl Iterator<Item = u8> + Clone,
        quorums: Quorums,
    ) -> TrustChange {
        let Self::Rejoining(rejoin) = self else {
            return TrustChange::Nothing;
        };
        if others.clone().count() < usize::from(quorums.view_change.max(quorums.replication)) {
            // Without this replica there is no view to serve in, and from now on no quorum without all of the others:
            // every operation that any of them has is kept.
            let all_met = others
                .clone()
                .all(|other| rejoin.heard.contains_key(&other));
            return if all_met {
                TrustChange::Rejoined
            } else {
                TrustChange::Nothing
            };
        }
        if report.status != Status::Normal || report.log_view != report.view {
            rejoin.adopted = None;
            return TrustChange::Nothing;
        }
        let (view, head) = match rejoin.adopted {
            Some((view, head)) if view == report.view => (view, head),
            _ => *rejoin.adopted.insert((report.view, report.op)),
        };
        let all_agree = { others }.all(|other| rejoin.stands_in(other, view));
        if all_agree && report.commit_min >= head && !report.syncing && !has_unsynced {
            TrustChange::Rejoined
        } else {
            TrustChange::Nothing
        }
    }

    /// Return those of the `others` whose claim must be requested now.
    pub fn peers_to_query(&mut self, now_ns: u64, others: impl Iterator<Item = u8>) -> Vec<u8> {
        let Self::Rejoining(rejoin) = self else {
            return Vec::new();
        };
        let Some((view, _)) = rejoin.adopted else {
            return Vec::new();
        };
        if now_ns < rejoin.ask_at_ns {
            return Vec::new();
        }
        rejoin.ask_at_ns = now_ns + ASK_EVERY_NS;
        others
            .filter(|other| !rejoin.stands_in(*other, view))
            .collect()
    }
}

/// Memory of the other replicas, used to detect a data directory that is an older copy.
///
/// A data directory that was restored from a backup, or rolled back by its file system, is intact and consistent: only
/// peers that have heard of its later state can detect the rollback. The memory is not durable: it covers only what
/// this process has met and received.
#[derive(Debug, Default)]
pub struct PeerMemory {
    peers: BTreeMap<u8, Remembered>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Remembered {
    incarnation: u64,
    process: u64,
    /// Newest log view in which the peer acknowledged, and the highest operation acknowledged there.
    acknowledged: (u32, u64),
}

/// Evidence that a peer has lost state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StateRolledBack {
    /// A later process has used the peer's data directory.
    #[error(
        "its directory is an older copy: it comes as start {incarnation} of that directory, and start {known} has \
         been met"
    )]
    Incarnation {
        /// Incarnation that the peer reports.
        incarnation: u64,
        /// Incarnation that was met before.
        known: u64,
    },
    /// The peer has acknowledged operations that it no longer has.
    #[error(
        "its directory is an older copy: its log ends with operation {op} of view {log_view}, and it has acknowledged \
         operation {known_op} in view {known_view}"
    )]
    Log {
        /// Last view whose log the peer has.
        log_view: u32,
        /// Head of the peer's log.
        op: u64,
        /// View of its newest acknowledgement.
        known_view: u32,
        /// Operation that it acknowledged in that view.
        known_op: u64,
    },
}

impl PeerMemory {
    /// Record that a peer's log is durable up to `op` in `view`, as one of its frames states.
    pub fn acknowledged(&mut self, peer: u8, view: u32, op: u64) {
        let remembered = self.peers.entry(peer).or_default();
        remembered.acknowledged = remembered.acknowledged.max((view, op));
    }

    /// Record a completed handshake with a peer that has lost no state.
    pub fn on_handshake(&mut self, peer: u8, claim: MemberClaim) {
        if claim.is_proven {
            let remembered = self.peers.entry(peer).or_default();
            (remembered.incarnation, remembered.process) = (claim.incarnation, claim.process);
        } else {
            self.peers.remove(&peer);
        }
    }

    /// Fail if a peer with this claim has lost state. A peer whose votes do not count knows that already.
    pub fn check(&self, peer: u8, claim: MemberClaim) -> Result<(), StateRolledBack> {
        let remembered = match self.peers.get(&peer) {
            Some(remembered) if claim.is_proven => remembered,
            _ => return Ok(()),
        };
        let is_older = claim.incarnation < remembered.incarnation
            || claim.incarnation == remembered.incarnation && claim.process != remembered.process;
        if is_older {
            return Err(StateRolledBack::Incarnation {
                incarnation: claim.incarnation,
                known: remembered.incarnation,
            });
        }
        let (known_view, known_op) = remembered.acknowledged;
        if (claim.log_view, claim.op) < (known_view, known_op) {
            return Err(StateRolledBack::Log {
                log_view: claim.log_view,
                op: claim.op,
                known_view,
                known_op,
            });
        }
        Ok(())
    }
}

impl Rejoin {
    fn hear(&mut self, peer: u8, claim: MemberClaim, dialled: bool) {
        if dialled {
            self.heard.insert(peer, claim);
        }
    }

    fn stands_in(&self, peer: u8, view: u32) -> bool {
        self.heard
            .get(&peer)
            .is_some_and(|claim| claim.is_normal && claim.view == view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Release;

    const OTHERS: [u8; 2] = [1, 2];
    const THREE: Quorums = Quorums {
        members: 3,
        replication: 2,
        view_change: 2,
        nack: 2,
    };

    fn others() -> impl Iterator<Item = u8> + Clone {
        OTHERS.into_iter()
    }

    fn claim(has_history: bool, view: u32) -> MemberClaim {
        MemberClaim {
            has_history,
            is_normal: true,
            view,
            ..MemberClaim::default()
        }
    }

    fn report(view: u32, op: u64, commit_min: u64) -> Report {
        Report {
            status: Status::Normal,
            view,
            log_view: view,
            primary: 0,
            op,
            commit_min,
            commit_max: commit_min,
            checkpoint_op: 0,
            log_floor: 1,
            link_floor: 1,
            syncing: false,
            release: Release::FIRST,
            queued: 0,
            clients: 0,
        }
    }

    #[test]
    fn new_directories_are_a_new_group_when_all_have_met() {
        let mut trust = Trust::unproven();
        assert!(!trust.may_send(Command::PrepareOk));
        assert!(trust.may_send(Command::RequestStartView));
        let new = claim(false, 0);
        assert_eq!(
            trust.on_handshake(1, new, true, others()),
            TrustChange::Nothing
        );
        assert_eq!(
            trust.on_handshake(1, new, false, others()),
            TrustChange::Nothing
        );
        assert_eq!(
            trust.on_handshake(2, new, false, others()),
            TrustChange::GroupIsNew
        );
    }

    /// CTL-5. Two replicas lost their disks, or one did and another has never started: together they are a quorum, and
    /// the history is on the third.
    #[test]
    fn two_empty_directories_do_not_begin_a_group_while_a_third_may_have_history() {
        let (mut one, mut two) = (Trust::unproven(), Trust::unproven());
        let empty = |trust: &Trust| trust.claim(&report(0, 0, 0), 1, 1);
        let (of_one, of_two) = (empty(&one), empty(&two));
        assert_eq!(
            one.on_handshake(1, of_two, true, others()),
            TrustChange::Nothing
        );
        assert_eq!(
            two.on_handshake(0, of_one, true, [0, 2].into_iter()),
            TrustChange::Nothing
        );
        let history = Trust::Proven.claim(&report(3, 900, 900), 4, 4);
        assert_eq!(
            one.on_handshake(2, history, false, others()),
            TrustChange::DiskWasLost
        );
        // Knowledge of history spreads from one replica to the other.
        let rejoining = one.claim(&report(0, 0, 0), 1, 1);
        assert_eq!(
            two.on_handshake(0, rejoining, false, [0, 2].into_iter()),
            TrustChange::DiskWasLost
        );
    }

    /// CTL-5.
    #[test]
    fn a_lost_disk_keeps_silent_until_all_others_stand_where_it_does() {
        let mut trust = Trust::unproven();
        assert_eq!(
            trust.on_handshake(1, claim(true, 4), true, others()),
            TrustChange::DiskWasLost
        );
        assert!(
            !trust.may_send(Command::DoViewChange) && !trust.may_receive(Command::DoViewChange)
        );
        let observe = |trust: &mut Trust, op, commit_min, has_unsynced| {
            trust.observe(&report(4, op, commit_min), has_unsynced, others(), THREE)
        };
        assert_eq!(observe(&mut trust, 10, 8, false), TrustChange::Nothing);
        assert_eq!(trust.peers_to_query(1, others()), [2]);
        trust.on_handshake(2, claim(true, 3), true, others());
        trust.on_handshake(2, claim(true, 4), false, others());
        assert_eq!(observe(&mut trust, 12, 10, false), TrustChange::Nothing);
        trust.on_handshake(2, claim(true, 4), true, others());
        assert_eq!(observe(&mut trust, 12, 9, false), TrustChange::Nothing);
        assert_eq!(observe(&mut trust, 12, 10, true), TrustChange::Nothing);
        assert_eq!(observe(&mut trust, 12, 10, false), TrustChange::Rejoined);
    }

    /// CTL-5. The operator has declared the other stopped replica lost. The remaining one has no view without this
    /// replica, so no common view is required.
    #[test]
    fn one_that_was_given_up_is_not_waited_for() {
        let mut trust = Trust::unproven();
        let recovering = Report {
            status: Status::Recovering,
            ..report(0, 0, 0)
        };
        let there = [1].into_iter();
        let observe = |trust: &mut Trust| trust.observe(&recovering, false, there.clone(), THREE);
        trust.on_handshake(1, claim(true, 4), false, others());
        assert_eq!(
            observe(&mut trust),
            TrustChange::Nothing,
            "it may still send"
        );
        trust.on_handshake(1, claim(true, 4), true, others());
        assert_eq!(observe(&mut trust), TrustChange::Rejoined);
    }

    /// CTL-5.
    #[test]
    fn an_older_copy_of_a_directory_is_noticed() {
        let come = |incarnation, process, log_view, op| MemberClaim {
            is_proven: true,
            incarnation,
            process,
            log_view,
            op,
            ..MemberClaim::default()
        };
        let mut memory = PeerMemory::default();
        assert_eq!(memory.check(1, come(3, 30, 2, 50)), Ok(()));
        memory.on_handshake(1, come(3, 30, 2, 50));
        memory.acknowledged(1, 2, 60);
        memory.acknowledged(1, 1, 900);
        let again = memory.check(1, come(3, 30, 2, 60));
        assert_eq!(again, Ok(()), "it dials again");
        let known = |incarnation| {
            Err(StateRolledBack::Incarnation {
                incarnation,
                known: 3,
            })
        };
        assert_eq!(memory.check(1, come(2, 31, 9, 99)), known(2));
        // The copy was made before the start that was met.
        assert_eq!(memory.check(1, come(3, 31, 9, 99)), known(3));
        let lost = memory.check(1, come(4, 40, 2, 59));
        let expected = StateRolledBack::Log {
            log_view: 2,
            op: 59,
            known_view: 2,
            known_op: 60,
        };
        assert_eq!(lost, Err(expected));
        assert!(memory.check(1, come(4, 40, 1, 900)).is_err());
        assert_eq!(memory.check(1, come(4, 40, 2, 60)), Ok(()));
        let cut = memory.check(1, come(5, 50, 3, 10));
        assert_eq!(cut, Ok(()), "a later view may have cut it");
        assert_eq!(memory.check(2, come(1, 1, 0, 0)), Ok(()), "another one");
        // A replica with an empty data directory starts over.
        assert_eq!(memory.check(1, MemberClaim::default()), Ok(()));
        memory.on_handshake(1, MemberClaim::default());
        assert_eq!(memory.check(1, come(1, 9, 3, 10)), Ok(()));
    }

    #[test]
    fn a_change_of_view_starts_the_proof_over() {
        let mut trust = Trust::unproven();
        trust.on_handshake(1, claim(true, 4), true, others());
        trust.on_handshake(2, claim(true, 4), true, others());
        let observe =
            |trust: &mut Trust, report: Report| trust.observe(&report, false, others(), THREE);
        assert_eq!(observe(&mut trust, report(4, 10, 8)), TrustChange::Nothing);
        assert_eq!(observe(&mut trust, report(5, 20, 12)), TrustChange::Nothing);
        trust.on_handshake(1, claim(true, 5), true, others());
        trust.on_handshake(2, claim(true, 5), true, others());
        assert_eq!(observe(&mut trust, report(5, 20, 19)), TrustChange::Nothing);
        assert_eq!(
            observe(&mut trust, report(5, 20, 20)),
            TrustChange::Rejoined
        );
    }
}
