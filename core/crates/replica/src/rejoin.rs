//! A replica whose folder is empty: is the group new, or was the disk lost?
//!
//! A replica that lost its disk has forgotten what it acknowledged. If it voted or acknowledged as if nothing had
//! happened, a quorum could be found that knows nothing of a committed command. So a replica with a new folder is
//! *unproven*: it says nothing that counts until it has learned which of the two it is.
//!
//! - It meets enough others whose folders are new as well to make a quorum: the group is new, and it is proven.
//! - It meets one with history: it *rejoins*. It follows the group and withholds acknowledgements and votes, until
//!   * every other replica has said, on a connection dialled since this start, that it serves in the view that this
//!     one has adopted: then none of them holds a vote from its former life for a later view, and none can get one, as
//!     frames of the former life came over connections that this one's have replaced, and
//!   * all that was in the log of that view's primary is applied and durable here: whatever the former life had
//!     acknowledged is among it.
//!
//! The file `unproven` says so across restarts. It is removed, durably, before anything that counts is sent.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use headrace_vsr::{
    api::{Report, Status},
    frame::Command,
    quorum::Quorums,
};

use crate::{errors::StartError, peers::Standing, storage::sync_folder};

const MARKER: &str = "unproven";
/// How often peers are asked where they stand.
const ASK_EVERY_NS: u64 = 500_000_000;

/// Whether this replica's word counts.
#[derive(Debug)]
pub(crate) enum Trust {
    /// It does.
    Proven,
    /// Not known yet; these peers are new as well.
    Unproven(BTreeSet<u8>),
    /// It lost its disk, and comes back.
    Rejoining(Rejoin),
}

#[derive(Debug, Default)]
pub(crate) struct Rejoin {
    heard: BTreeMap<u8, Standing>,
    /// View that was adopted, and the head of its log then.
    adopted: Option<(u32, u64)>,
    ask_at_ns: u64,
}

/// What has changed by an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    /// The group is new: the marker may go.
    GroupIsNew,
    /// The group has history, and we have none.
    DiskWasLost,
    /// We know again all that we may have acknowledged: the marker may go.
    Rejoined,
}

impl Trust {
    /// How a start begins. A new folder of a replica that is alone has nobody to betray.
    pub(crate) fn open(folder: &Path, is_new: bool, is_alone: bool) -> Result<Self, StartError> {
        let path = marker(folder);
        let failed = |source| StartError::storage("open", &path, source);
        if is_new && !is_alone {
            File::create(&path)
                .and_then(|file| file.sync_all())
                .and_then(|()| sync_folder(folder))
                .map_err(failed)?;
        }
        match fs::metadata(&path) {
            Ok(_) => Ok(Self::Unproven(BTreeSet::new())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::Proven),
            Err(source) => Err(failed(source)),
        }
    }

    pub(crate) fn is_proven(&self) -> bool {
        matches!(self, Self::Proven)
    }

    /// Whether a frame of that kind may be sent: one that no quorum is made of, nor follows from one of ours.
    pub(crate) fn may_send(&self, command: Command) -> bool {
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

    /// Whether a frame of that kind may be looked at: with the votes of others our own would make a quorum.
    pub(crate) fn may_receive(&self, command: Command) -> bool {
        self.is_proven() || !matches!(command, Command::StartViewChange | Command::DoViewChange)
    }

    /// A handshake is over. `dialled`: by us, so that it has replaced a connection of our former life.
    pub(crate) fn meet(
        &mut self,
        peer: u8,
        standing: Standing,
        dialled: bool,
        quorums: Quorums,
    ) -> Change {
        match self {
            Self::Proven => Change::Nothing,
            Self::Unproven(_) if standing.has_history => {
                let mut rejoin = Rejoin::default();
                if dialled {
                    rejoin.heard.insert(peer, standing);
                }
                *self = Self::Rejoining(rejoin);
                Change::DiskWasLost
            }
            Self::Unproven(new) => {
                new.insert(peer);
                if new.len() + 1 >= usize::from(quorums.view_change.max(quorums.replication)) {
                    Change::GroupIsNew
                } else {
                    Change::Nothing
                }
            }
            Self::Rejoining(rejoin) => {
                if dialled {
                    rejoin.heard.insert(peer, standing);
                }
                Change::Nothing
            }
        }
    }

    /// Where the core stands; `has_unsynced`: not all that it was given to store is durable.
    pub(crate) fn observe(&mut self, report: &Report, has_unsynced: bool, peers: u8) -> Change {
        let Self::Rejoining(rejoin) = self else {
            return Change::Nothing;
        };
        if report.status != Status::Normal || report.log_view != report.view {
            rejoin.adopted = None;
            return Change::Nothing;
        }
        let (view, head) = match rejoin.adopted {
            Some((view, head)) if view == report.view => (view, head),
            _ => *rejoin.adopted.insert((report.view, report.op)),
        };
        let all_agree = rejoin.heard.len() == usize::from(peers)
            && rejoin
                .heard
                .values()
                .all(|standing| standing.is_normal && standing.view == view);
        if all_agree && report.commit_min >= head && !report.syncing && !has_unsynced {
            Change::Rejoined
        } else {
            Change::Nothing
        }
    }

    /// Peers that have to be asked where they stand, now and then.
    pub(crate) fn ask_whom(&mut self, now_ns: u64, peers: impl Iterator<Item = u8>) -> Vec<u8> {
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
        peers
            .filter(|peer| {
                rejoin
                    .heard
                    .get(peer)
                    .is_none_or(|standing| !standing.is_normal || standing.view != view)
            })
            .collect()
    }

    /// From now on the word of this replica counts, also after a restart.
    pub(crate) fn prove(&mut self, folder: &Path) -> io::Result<()> {
        match fs::remove_file(marker(folder)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => sync_folder(folder)?,
        }
        *self = Self::Proven;
        Ok(())
    }
}

fn marker(folder: &Path) -> PathBuf {
    folder.join(MARKER)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Quorums = Quorums {
        members: 3,
        replication: 2,
        view_change: 2,
        nack: 2,
    };

    fn standing(has_history: bool, view: u32) -> Standing {
        Standing {
            has_history,
            is_normal: true,
            view,
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
            queued: 0,
            clients: 0,
        }
    }

    #[test]
    fn a_quorum_of_new_folders_is_a_new_group() {
        let folder = tempfile::tempdir().unwrap();
        let mut trust = Trust::open(folder.path(), true, false).unwrap();
        assert!(!trust.may_send(Command::PrepareOk));
        assert!(trust.may_send(Command::RequestStartView));
        assert_eq!(
            trust.meet(1, standing(false, 0), true, THREE),
            Change::GroupIsNew
        );
        trust.prove(folder.path()).unwrap();
        assert!(trust.may_send(Command::PrepareOk));
        assert!(
            Trust::open(folder.path(), false, false)
                .unwrap()
                .is_proven()
        );
    }

    /// CTL-5.
    #[test]
    fn a_lost_disk_keeps_silent_until_all_others_stand_where_it_does() {
        let folder = tempfile::tempdir().unwrap();
        Trust::open(folder.path(), true, false).unwrap();
        // Also after a restart: the folder is not new any more.
        let mut trust = Trust::open(folder.path(), false, false).unwrap();
        assert_eq!(
            trust.meet(1, standing(true, 4), true, THREE),
            Change::DiskWasLost
        );
        assert!(
            !trust.may_send(Command::DoViewChange) && !trust.may_receive(Command::DoViewChange)
        );
        assert_eq!(trust.observe(&report(4, 10, 8), false, 2), Change::Nothing);
        assert_eq!(trust.ask_whom(1, [1, 2].into_iter()), [2]);
        trust.meet(2, standing(true, 3), true, THREE);
        trust.meet(2, standing(true, 4), false, THREE);
        assert_eq!(trust.observe(&report(4, 12, 10), false, 2), Change::Nothing);
        trust.meet(2, standing(true, 4), true, THREE);
        assert_eq!(trust.observe(&report(4, 12, 9), false, 2), Change::Nothing);
        assert_eq!(trust.observe(&report(4, 12, 10), true, 2), Change::Nothing);
        assert_eq!(
            trust.observe(&report(4, 12, 10), false, 2),
            Change::Rejoined
        );
    }

    #[test]
    fn a_change_of_view_starts_the_proof_over() {
        let folder = tempfile::tempdir().unwrap();
        let mut trust = Trust::open(folder.path(), true, false).unwrap();
        trust.meet(1, standing(true, 4), true, THREE);
        trust.meet(2, standing(true, 4), true, THREE);
        assert_eq!(trust.observe(&report(4, 10, 8), false, 2), Change::Nothing);
        assert_eq!(trust.observe(&report(5, 20, 12), false, 2), Change::Nothing);
        trust.meet(1, standing(true, 5), true, THREE);
        trust.meet(2, standing(true, 5), true, THREE);
        assert_eq!(trust.observe(&report(5, 20, 19), false, 2), Change::Nothing);
        assert_eq!(
            trust.observe(&report(5, 20, 20), false, 2),
            Change::Rejoined
        );
    }
}
