//! Check of the alarms of replicas against the injected faults.

use headrace_vsr::api::Notice;
use headrace_vsr::journal::Scan;
use headrace_vsr::rules::Rules;
use headrace_vsr::superblock::{self, COPY_BYTES, Superblock};

use super::store::Store;
use super::{Bare, Cluster};
use crate::checker::{Alarm, Check, Verdict, Violation, check_verdict};
use crate::cluster::{Node, SUPERBLOCK};

/// Check the decoding of a received frame: damaged frames must be rejected, intact ones accepted.
pub(super) fn check_frame_decoding(
    from: u8,
    is_taken: bool,
    is_damaged: bool,
) -> Result<(), Violation> {
    let what = match (is_taken, is_damaged) {
        (true, false) | (false, true) => return Ok(()),
        (true, true) => "a damaged frame is taken for whole",
        (false, false) => "a whole frame is rejected as damaged",
    };
    let what = format!("{what}: it came from replica {from}");
    Err(Violation::new(Check::Alarm, what))
}

/// Check that the superblock copies which a start rewrites include all damaged ones.
pub(super) fn check_superblock_repair<R: Rules + Clone>(
    node: &Node<Bare<R>>,
    mended: &[usize],
) -> Result<(), Violation> {
    let overlooked = node
        .storage
        .superblock_scars
        .iter()
        .filter(|scar| node.storage.disk.is_still_damaged(scar))
        .map(|scar| scar.start() / COPY_BYTES)
        .find(|copy| !mended.contains(copy));
    overlooked.map_or(Ok(()), |copy| {
        let what = format!("copy {copy} of the superblock is damaged and is not written anew");
        Err(Violation::new(Check::Alarm, what))
    })
}

/// Check the findings of a start, and note which operations are durable from now on.
pub(super) fn check_start<R: Rules + Clone>(
    node: &mut Node<Bare<R>>,
    scan: &Scan,
    superblock: &Superblock,
) -> Result<(), Violation> {
    let result = check_scan(node, scan, superblock.checkpoint.op)
        .and_then(|()| check_missed(node, scan, superblock));
    let intact = scan.entries.iter().filter(|entry| entry.intact);
    let newest = intact.map(|entry| entry.op).max().unwrap_or(0);
    node.storage.held_through = node.storage.held_through.map(|held| held.max(newest));
    result
}

/// Check that a start, which has scanned the journal, reports all damaged records.
fn check_scan<R: Rules + Clone>(
    node: &Node<Bare<R>>,
    scan: &Scan,
    checkpoint_op: u64,
) -> Result<(), Violation> {
    for (op, place, scar) in &node.storage.record_damage {
        if *op <= checkpoint_op || !node.storage.disk.is_still_damaged(scar) {
            continue;
        }
        let entry = scan.entries.iter().find(|entry| entry.op == *op);
        let checksum = entry.and_then(|entry| Some(entry.header?.checksum));
        // A later record takes precedence, and an earlier record of the same prepare is equivalent.
        let is_elsewhere = scan.places.iter().any(|found| {
            let offset = usize::try_from(found.offset).expect("files of a simulation are small");
            let at = (found.file, offset);
            let serves =
                at > place.order() || at != place.order() && Some(found.checksum) == checksum;
            found.op == *op && serves
        });
        let verdict = match entry {
            _ if is_elsewhere || Store::is_whole(&node.storage.disk, *op, *place) => {
                Verdict::Superseded
            }
            None => Verdict::Absent,
            Some(entry) if entry.intact => Verdict::Intact,
            Some(_) => Verdict::Damaged,
        };
        check_verdict(*op, verdict)?;
    }
    Ok(())
}

/// Check that a start misses no operation that was never durable here. What it misses is never denied: if the operation
/// was not committed either, a group that lost its only copy could not decide about it.
///
/// The state of a group of one, and of a disk with damage, allows no such statement.
fn check_missed<R: Rules + Clone>(
    node: &Node<Bare<R>>,
    scan: &Scan,
    superblock: &Superblock,
) -> Result<(), Violation> {
    let Some(held) = held_through(node, superblock) else {
        return Ok(());
    };
    let commits = scan.entries.iter().filter_map(|entry| entry.header);
    let known = commits.map(|header| header.area.commit).max().unwrap_or(0);
    let excused = held.max(known).max(superblock.commit_max);
    let mut missed = scan.entries.iter().filter(|entry| !entry.intact);
    missed
        .find(|entry| entry.op > excused)
        .map_or(Ok(()), |entry| {
            let what = format!(
                "operation {} counts as damaged, and only {held} was ever the newest durable one",
                entry.op
            );
            Err(Violation::new(Check::Alarm, what))
        })
}

/// Check after a cut that no head vouches for what was cut, even if the next view begins with a much longer log.
pub(super) fn check_cut<R: Rules + Clone>(node: &Node<Bare<R>>) -> Result<(), Violation> {
    let opened = superblock::open(node.storage.disk.read(SUPERBLOCK).unwrap_or_default());
    let Ok(mut next) = opened.map(|opened| opened.superblock) else {
        return Ok(());
    };
    let Some(held) = held_through(node, &next) else {
        return Ok(());
    };
    let excused = held.max(next.commit_max).max(next.checkpoint.op);
    next.view.log_view += 1;
    next.view.start_op = u64::MAX;
    let stated = Store::scan(&node.storage.disk, &next).witnessed;
    if stated <= excused {
        return Ok(());
    }
    let what = format!("operation {stated} is stated to be durable after a cut to {held}");
    Err(Violation::new(Check::Alarm, what))
}

/// Highest operation that was durable on the disk and was not cut since; `None` if damage may hide evidence of it, and in a
/// group of one.
fn held_through<R: Rules + Clone>(node: &Node<Bare<R>>, superblock: &Superblock) -> Option<u64> {
    node.storage.held_through.filter(|_| {
        superblock.replica_count() > 1
            && node.storage.record_damage.is_empty()
            && node.storage.forgotten.is_none()
            && node.storage.damaged_pair.is_none()
    })
}

impl<R: Rules + Clone> Cluster<Bare<R>> {
    /// Check an alarm raised by a replica.
    pub(super) fn judge_notice(&mut self, node: u8, notice: Notice) -> Result<(), Violation> {
        match notice {
            Notice::Deadlock { .. } => self.causes.check(node, Alarm::Undecidable),
            Notice::Faulty { op } => {
                let process = self.nodes[usize::from(node)].process.as_mut();
                if process.is_some_and(|process| !process.unreadable.remove(&op)) {
                    let what = format!("operation {op} is said to be damaged, and was read");
                    return Err(Violation::new(Check::Alarm, what));
                }
                self.causes.check(node, Alarm::Records)
            }
            _ => Ok(()),
        }
    }
}
