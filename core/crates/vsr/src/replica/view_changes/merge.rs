//! Merge of the received summaries: a new primary's decision about the log with which its view begins.
//!
//! The canonical log is that of the newest `log_view`. Its suffix is cut only where a quorum of nacks proves that a
//! prepare was never committed. While neither a nack quorum nor a copy is known, the decision waits for more replicas.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::api::FatalReason;
use crate::frame::PrepareHeader;
use crate::frame::area::DoViewChange;
use crate::quorum::Quorums;
use crate::rules::Rules;

/// Summary of one replica's log.
#[derive(Debug, Clone)]
pub(crate) struct Summary {
    area: DoViewChange,
    /// Headers from `area.op` down, blank where unknown.
    headers: Vec<PrepareHeader>,
}

/// Log with which a view begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DecidedLog {
    pub(crate) head: u64,
    /// Highest operation that is certainly committed.
    pub(crate) commit: u64,
    /// Headers from the commit point (at least 1) to the head.
    pub(crate) headers: BTreeMap<u64, PrepareHeader>,
    pub(crate) loss_view: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// More summaries are needed.
    Wait,
    /// All replicas have answered, and this operation can be neither kept nor discarded.
    Deadlock(u64),
    Decided(DecidedLog),
}

impl Summary {
    /// Create a summary if the headers match the fields.
    pub(crate) fn new(area: DoViewChange, headers: Vec<PrepareHeader>) -> Option<Self> {
        let descending = headers
            .iter()
            .enumerate()
            .all(|(index, header)| Some(header.op()) == area.op.checked_sub(index as u64));
        (!headers.is_empty() && headers.len() <= 128 && descending)
            .then_some(Self { area, headers })
    }

    fn index(&self, op: u64) -> Option<usize> {
        let index = usize::try_from(self.area.op.checked_sub(op)?).ok()?;
        (index < self.headers.len()).then_some(index)
    }

    fn header(&self, op: u64) -> Option<&PrepareHeader> {
        let header = &self.headers[self.index(op)?];
        (!header.is_blank()).then_some(header)
    }

    fn bit(&self, bits: u128, op: u64) -> bool {
        self.index(op).is_some_and(|index| bits >> index & 1 == 1)
    }

    /// Return whether this replica nacks the canonical prepare of `op`. An operation below its suffix is never nacked,
    /// because the summary says nothing about it.
    fn denies(&self, op: u64, canonical: Option<u128>, log_view: u32) -> bool {
        if self.area.op < op {
            return true;
        }
        if self.bit(self.area.nack_bitset, op) {
            return true;
        }
        // This replica holds another prepare at this place, from an older log view.
        self.area.log_view < log_view
            && self
                .header(op)
                .is_some_and(|header| Some(header.checksum) != canonical)
    }

    /// Return whether this replica can send the body of the canonical prepare of `op`.
    pub(crate) fn serves(&self, op: u64, canonical: Option<u128>) -> bool {
        self.bit(self.area.present_bitset, op)
            && self
                .header(op)
                .is_some_and(|header| Some(header.checksum) == canonical)
    }
}

/// Decide the log, or return what is missing.
pub(crate) fn merge<'a>(
    rules: &impl Rules,
    quorums: Quorums,
    summaries: impl Iterator<Item = &'a Summary>,
) -> Result<Decision, FatalReason> {
    let summaries: Vec<&Summary> = summaries.collect();
    if summaries.len() < usize::from(rules.view_change_quorum(quorums)) {
        return Ok(Decision::Wait);
    }
    let rank = |summary: &Summary| rules.log_rank(summary.area.log_view, summary.area.op);
    let best = summaries
        .iter()
        .map(|summary| rank(summary))
        .max()
        .unwrap_or(0);
    let canon: Vec<&Summary> = summaries
        .iter()
        .copied()
        .filter(|summary| rank(summary) == best)
        .collect();
    let Some(first) = canon.first() else {
        return Ok(Decision::Wait);
    };
    let (log_view, start) = (first.area.log_view, first.area.view_start_op);
    if canon
        .iter()
        .any(|summary| summary.area.view_start_op != start)
    {
        return Err(FatalReason::Invariant("a view began with one head"));
    }
    let commit = commit_point(rules, &summaries, log_view, start)?;
    let top = canon
        .iter()
        .map(|summary| summary.area.op)
        .max()
        .unwrap_or(0);
    if top < commit {
        return Err(FatalReason::Invariant(
            "the canonical log reaches the commit point",
        ));
    }
    let everyone = summaries.len() == usize::from(quorums.members);
    let mut head = top;
    let mut headers = BTreeMap::new();
    for op in commit.max(1)..=top {
        let header = canonical_header(&canon, op)?;
        let checksum = header.map(|header| header.checksum);
        let nacks = summaries
            .iter()
            .filter(|summary| summary.denies(op, checksum, log_view))
            .count();
        if op > commit && nacks >= usize::from(rules.nack_quorum(quorums)) {
            head = op - 1;
            break;
        }
        let served = summaries.iter().any(|summary| summary.serves(op, checksum));
        match header {
            Some(header) if served => {
                headers.insert(op, *header);
            }
            _ if everyone => return Ok(Decision::Deadlock(op)),
            _ => return Ok(Decision::Wait),
        }
    }
    check_chain(&headers)?;
    Ok(Decision::Decided(DecidedLog {
        head,
        commit,
        headers,
        loss_view: canon
            .iter()
            .map(|summary| summary.area.loss_view)
            .max()
            .unwrap_or(0),
    }))
}

/// Highest operation that any summary proves to be committed.
fn commit_point(
    rules: &impl Rules,
    summaries: &[&Summary],
    log_view: u32,
    start: u64,
) -> Result<u64, FatalReason> {
    let mut commit = 0;
    for summary in summaries {
        let area = &summary.area;
        let newest = summary.header(area.op).map(|header| header.area.commit);
        let proven = rules.proven_commit(area.commit_max, area.op, newest.unwrap_or(0));
        // A damaged head may belong to a later log that was stored before its view was recorded. It is a fact that so
        // many operations existed, and none about what was committed in the summary's own log.
        let before = if newest.is_some() {
            proven
        } else {
            area.commit_max
        };
        // A view begins with every operation that was committed before it.
        if area.log_view < log_view && before > start {
            return Err(FatalReason::Invariant(
                "a view began with all that was committed",
            ));
        }
        commit = commit.max(proven);
    }
    Ok(commit)
}

fn canonical_header<'a>(
    canon: &[&'a Summary],
    op: u64,
) -> Result<Option<&'a PrepareHeader>, FatalReason> {
    let mut found: Option<&PrepareHeader> = None;
    for header in canon.iter().filter_map(|summary| summary.header(op)) {
        match found {
            Some(other) if other.checksum != header.checksum => {
                return Err(FatalReason::Invariant(
                    "a view has one prepare per operation",
                ));
            }
            _ => found = Some(header),
        }
    }
    Ok(found)
}

fn check_chain(headers: &BTreeMap<u64, PrepareHeader>) -> Result<(), FatalReason> {
    let mut below: Option<&PrepareHeader> = None;
    for header in headers.values() {
        if below.is_some_and(|below| below.checksum != header.parent()) {
            return Err(FatalReason::Invariant("the decided log is a chain"));
        }
        below = Some(header);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::frame::area::Prepare;
    use crate::frame::{Operation, Origin, PIPELINE_MAX};
    use crate::rules::Standard;

    /// Create a chain of prepares from 1 to `ops`, prepared in `view`.
    fn chain(view: u32, ops: u64) -> Vec<PrepareHeader> {
        let mut headers = vec![PrepareHeader::root(1, 1)];
        for op in 1..=ops {
            let area = Prepare {
                parent: headers[headers.len() - 1].checksum,
                op,
                timestamp_ns: op,
                operation: Operation::NOOP,
                ..Prepare::default()
            };
            let origin = Origin {
                cluster: 1,
                group: 1,
                view,
                ..Origin::default()
            };
            headers.push(PrepareHeader::seal(origin, area, &[]));
        }
        headers
    }

    /// Create a summary of a log up to `op`; bit `i` of the bit sets refers to `op - i`.
    fn summary(
        log: &[PrepareHeader],
        op: usize,
        log_view: u32,
        present: u128,
        nacks: u128,
    ) -> Summary {
        let headers = if op == 0 {
            vec![log[0]]
        } else {
            log[1..=op].iter().rev().copied().collect()
        };
        let area = DoViewChange {
            op: op as u64,
            log_view,
            present_bitset: present,
            nack_bitset: nacks,
            ..DoViewChange::default()
        };
        Summary::new(area, headers).unwrap()
    }

    fn decide(summaries: &[Summary]) -> Decision {
        let quorums = Quorums::of(3).unwrap();
        merge(&Standard, quorums, summaries.iter()).unwrap()
    }

    fn head(summaries: &[Summary]) -> u64 {
        match decide(summaries) {
            Decision::Decided(log) => log.head,
            other => panic!("not decided: {other:?}"),
        }
    }

    #[test]
    fn ctl_1_one_summary_of_three_decides_nothing() {
        let log = chain(0, 2);
        assert_eq!(decide(&[summary(&log, 2, 0, 0b11, 0)]), Decision::Wait);
    }

    #[test]
    fn ctl_1_a_prepare_that_one_replica_holds_is_kept() {
        let log = chain(0, 2);
        let summaries = [summary(&log, 2, 0, 0b11, 0), summary(&log, 1, 0, 0b1, 0)];
        assert_eq!(head(&summaries), 2);
    }

    #[test]
    fn ctl_1_the_log_of_the_newest_view_wins_over_a_longer_one() {
        let (old, new) = (chain(0, 3), chain(1, 1));
        let summaries = [summary(&old, 3, 0, 0b111, 0), summary(&new, 1, 1, 0b1, 0)];
        assert_eq!(head(&summaries), 1);
    }

    #[test]
    fn ctl_1_two_denials_cut() {
        let log = chain(0, 2);
        let summaries = [summary(&log, 2, 0, 0b10, 0b01), summary(&log, 1, 0, 0b1, 0)];
        assert_eq!(head(&summaries), 1);
    }

    #[test]
    fn ctl_5_a_damaged_copy_is_no_denial() {
        let log = chain(0, 2);
        let mut summaries = vec![summary(&log, 2, 0, 0b10, 0), summary(&log, 1, 0, 0b1, 0)];
        assert_eq!(decide(&summaries), Decision::Wait, "a third may have it");
        let mut have = summaries.clone();
        have.push(summary(&log, 2, 0, 0b11, 0));
        assert_eq!(head(&have), 2);
        summaries.push(summary(&log, 1, 0, 0b1, 0));
        assert_eq!(head(&summaries), 1, "two never had it");
    }

    #[test]
    fn ctl_5_all_answered_and_none_has_the_operation() {
        let log = chain(0, 1);
        let damaged = summary(&log, 1, 0, 0, 0);
        let summaries = [damaged.clone(), damaged, summary(&log, 0, 0, 1, 0)];
        assert_eq!(decide(&summaries), Decision::Deadlock(1));
    }

    #[test]
    fn ctl_1_two_prepares_of_one_view_stop_the_replica() {
        let (one, mut other) = (chain(0, 1), chain(0, 1));
        other[1].area.timestamp_ns = 9;
        other[1] = other[1].with_checksum();
        let summaries = [summary(&one, 1, 0, 1, 0), summary(&other, 1, 0, 1, 0)];
        let quorums = Quorums::of(3).unwrap();
        assert!(merge(&Standard, quorums, summaries.iter()).is_err());
    }

    #[test]
    fn ctl_1_a_log_that_lacks_a_commit_stops_the_replica() {
        let log = chain(0, 2);
        let mut behind = summary(&log, 1, 1, 1, 0);
        behind.area.view_start_op = 1;
        let mut ahead = summary(&log, 2, 0, 0b11, 0);
        ahead.area.commit_max = 2;
        let quorums = Quorums::of(3).unwrap();
        assert!(merge(&Standard, quorums, [behind, ahead].iter()).is_err());
    }

    #[test]
    fn ctl_5_a_damaged_head_of_a_later_log_does_not_contradict_the_view_between() {
        // View 1 began with an empty log. The last replica had stored its operations, lost the superblock with the view
        // and all records in a power loss, and knows by the heads of records alone how many there were.
        let head = PIPELINE_MAX + 3;
        let log = chain(1, head);
        let mut newer = summary(&log, usize::try_from(head).unwrap(), 1, !0, 0);
        newer.area.commit_max = head;
        let mut damaged = summary(&log, usize::try_from(head).unwrap() - 1, 0, 0, 0);
        for header in &mut damaged.headers {
            *header = PrepareHeader::blank(header.op());
        }
        let decided = decide(&[newer.clone(), damaged.clone()]);
        assert!(
            matches!(decided, Decision::Decided(log) if (log.head, log.commit) == (head, head))
        );
        damaged.area.commit_max = 1;
        let quorums = Quorums::of(3).unwrap();
        assert!(merge(&Standard, quorums, [newer, damaged].iter()).is_err());
    }
}
