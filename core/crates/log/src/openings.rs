//! Openings of the log, which the manifest keeps so that readers notice what was cut.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use headrace_model::{Offset, Opening};

/// Maximum number of openings that are kept.
pub(crate) const OPENINGS_MAX: usize = 32;

/// Return the openings that say the same as all before and this one.
///
/// One that had found the end where this one has found it, or behind, is dropped: a reader from before it has lost as much
/// by this one. Of too many the two oldest become one, which says of readers between them what was true of those before.
pub(crate) fn with(earlier: &[Opening], opening: Opening) -> Vec<Opening> {
    let kept = earlier.partition_point(|before| before.end < opening.end);
    let mut openings = earlier[..kept].to_vec();
    openings.push(opening);
    while openings.len() > OPENINGS_MAX {
        openings[1].end = openings[0].end;
        openings.remove(0);
    }
    openings
}

/// Append the field of a manifest that has the openings.
pub(crate) fn encode(openings: &[Opening], text: &mut String) {
    text.push_str(",\"openings\":[");
    for (index, Opening { epoch, end }) in openings.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        // Writing to a string never fails.
        let _ = write!(text, "{comma}[{epoch},{end}]");
    }
    text.push(']');
}

/// Decode the openings, without the brackets of their list.
pub(crate) fn decode(list: &str) -> Option<Vec<Opening>> {
    if list.is_empty() {
        return Some(Vec::new());
    }
    let list = list.strip_prefix('[')?.strip_suffix(']')?;
    let openings = list.split("],[").map(|opening| {
        let (epoch, end) = opening.split_once(',')?;
        Some(Opening {
            epoch: epoch.parse().ok()?,
            end: Offset(end.parse().ok()?),
        })
    });
    openings.collect()
}

#[cfg(test)]
mod tests {
    use headrace_model::cut_since;
    use proptest::prelude::*;

    use super::*;

    /// Events of a log: messages are appended, or it is opened without the last so many.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Append(u64),
        Open { lost: u64 },
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            (1..20_u64).prop_map(Event::Append),
            prop_oneof![Just(0), 1..30_u64].prop_map(|lost| Event::Open { lost }),
        ]
    }

    /// A reader that was somewhere in the log, and the lowest end since.
    struct Reader {
        epoch: u64,
        position: u64,
        lowest_end: u64,
        openings_since: usize,
    }

    proptest! {
        /// LOG-21: a reader learns of a cut if and only if a message was lost that it may have read, and where.
        #[test]
        fn a_cut_below_a_reader_is_noticed(events in prop::collection::vec((event(), 0..=100_u64), 1..120)) {
            let (mut end, mut epoch) = (0_u64, 1);
            let mut openings = with(&[], Opening { epoch, end: Offset(0) });
            let mut readers: Vec<Reader> = Vec::new();
            for (event, percent) in events {
                match event {
                    Event::Append(count) => end += count,
                    Event::Open { lost } => {
                        end = end.saturating_sub(lost);
                        epoch += 1 + lost % 3;
                        openings = with(&openings, Opening { epoch, end: Offset(end) });
                        for reader in &mut readers {
                            reader.lowest_end = reader.lowest_end.min(end);
                            reader.openings_since += 1;
                        }
                    }
                }
                let position = end * percent / 100;
                readers.push(Reader { epoch, position, lowest_end: u64::MAX, openings_since: 0 });
                prop_assert!(openings.len() <= OPENINGS_MAX);
                prop_assert!(openings.is_sorted_by(|a, b| a.epoch < b.epoch));
                for reader in &readers {
                    let is_cut = reader.lowest_end < reader.position;
                    let found = cut_since(&openings, reader.epoch, Offset(reader.position));
                    if reader.openings_since < OPENINGS_MAX {
                        prop_assert_eq!(found, is_cut.then_some(Offset(reader.lowest_end)));
                    } else {
                        prop_assert!(found.is_some() || !is_cut);
                        prop_assert!(found.is_none_or(|found| found.0 <= reader.lowest_end));
                    }
                }
            }
        }
    }
}
