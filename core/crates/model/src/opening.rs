//! Openings of a log, by which a reader notices that a log was cut.

use crate::Offset;

/// One opening of a log, by a server that has started or has got the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Number of the opening. Later ones have higher numbers.
    pub epoch: u64,
    /// End of the log that was found. Messages behind it, if there were any, are lost, and new ones get their offsets.
    pub end: Offset,
}

/// Return where a log was cut since a reader was at a position in it.
///
/// A reader that knows no epoch, and a log whose openings are unknown, have no answer.
///
/// # Arguments
/// * `openings`: those of the log, ascending in epoch and end. The last one is the present.
/// * `epoch`: the opening in which the reader was at the position; 0 if it does not know.
/// * `position`: offset after the last message that the reader may have got.
pub fn cut_since(openings: &[Opening], epoch: u64, position: Offset) -> Option<Offset> {
    if epoch == 0 {
        return None;
    }
    let later = openings.partition_point(|opening| opening.epoch <= epoch);
    let is_present = openings.last().is_some_and(|last| last.epoch == epoch);
    // Of the reader's opening nothing may have reached the device, so that a later one has a lower number if the clock
    // was set back.
    let next = match openings.get(later) {
        None if !is_present => openings.last(),
        next => next,
    };
    next.map(|next| next.end).filter(|end| *end < position)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENINGS: [Opening; 3] = [
        Opening {
            epoch: 3,
            end: Offset(10),
        },
        Opening {
            epoch: 5,
            end: Offset(20),
        },
        Opening {
            epoch: 8,
            end: Offset(30),
        },
    ];

    #[test]
    fn the_next_opening_says_where_a_log_was_cut() {
        let cut = |epoch, position| cut_since(&OPENINGS, epoch, Offset(position));
        assert_eq!(cut(8, 31), None, "read in the present opening");
        assert_eq!(cut(5, 30), None);
        assert_eq!(cut(5, 31), Some(Offset(30)));
        assert_eq!(cut(7, 31), Some(Offset(30)), "an opening at the same end");
        assert_eq!(cut(3, 21), Some(Offset(20)));
        assert_eq!(cut(2, 21), Some(Offset(10)));
        assert_eq!(cut(2, 10), None);
    }

    #[test]
    fn an_opening_of_which_nothing_is_left_counts_as_one_before() {
        assert_eq!(cut_since(&OPENINGS, 9, Offset(31)), Some(Offset(30)));
        assert_eq!(cut_since(&OPENINGS, 9, Offset(30)), None);
    }

    #[test]
    fn nothing_is_said_of_what_is_unknown() {
        assert_eq!(cut_since(&OPENINGS, 0, Offset(31)), None);
        assert_eq!(cut_since(&[], 4, Offset(31)), None);
    }
}
