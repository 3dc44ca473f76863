//! Finding the messages of a log file by reading it: at recovery and to rebuild an index.

use alloc::vec::Vec;

use headrace_wire::message::{HEADER_BYTES, HeaderView};

use crate::entry::{Entry, INTERVAL_BYTES, Kind};
use crate::walk::{Stop, checksum_matches, is_plausible, verified_message_at};

/// Bytes of one read while scanning; more when a message is larger.
const READ_BYTES: u64 = 1024 * 1024;

/// What a scan wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// These bytes.
    Read {
        /// Position in the log file.
        position: u64,
        /// How many.
        length: u32,
    },
    /// Nothing: all messages up to the end were found.
    Complete,
    /// Nothing: what follows `position` is not a whole valid message.
    Stopped,
}

/// A walk over one segment from a known boundary to its end that verifies every message.
#[derive(Debug)]
pub(crate) struct Scan {
    /// The boundary reached so far; its timestamp is that of the message before.
    pub(crate) reached: Entry,
    /// A boundary about every 8 KiB, and the first one behind each damage.
    pub(crate) entries: Vec<(Entry, Kind)>,
    /// Where the file ends, or what is to be found ends.
    end: u64,
    last_entry_position: u64,
    /// Offset after the last message, where it is known: then the scan goes on behind damage.
    end_offset: Option<u64>,
    /// Looking for the next message behind damage, from here on.
    seeking: Option<u64>,
    read_bytes: u64,
}

impl Scan {
    /// From `start` to `end`, stopping at the first message that is not whole and valid.
    pub(crate) fn up_to_damage(start: Entry, end: u64) -> Self {
        Self {
            reached: start,
            entries: Vec::new(),
            end,
            last_entry_position: start.position,
            end_offset: None,
            seeking: None,
            read_bytes: READ_BYTES,
        }
    }

    /// From `start` to `end`, where the message `end_offset` would start, skipping damage.
    pub(crate) fn over_damage(start: Entry, end: u64, end_offset: u64) -> Self {
        Self {
            end_offset: Some(end_offset),
            ..Self::up_to_damage(start, end)
        }
    }

    /// The first read, or the result when there is nothing to read.
    pub(crate) fn begin(&self) -> Progress {
        let position = self.seeking.unwrap_or(self.reached.position);
        if position >= self.end {
            return Progress::Complete;
        }
        let length = self.read_bytes.min(self.end - position);
        Progress::Read {
            position,
            length: u32::try_from(length).expect("a message is smaller than 4 GiB"),
        }
    }

    /// The bytes that were asked for; fewer than asked for means that the file ends there.
    pub(crate) fn feed(&mut self, bytes: &[u8], asked: u32) -> Progress {
        let start = self.seeking.unwrap_or(self.reached.position);
        let at_end = bytes.len() < asked as usize || start + u64::from(asked) >= self.end;
        self.read_bytes = READ_BYTES;
        let mut at = 0;
        loop {
            if let Some(from) = self.seeking {
                match self.seek(from, &bytes[at..], at_end) {
                    Sought::Found(found) => at += found,
                    Sought::Nothing if at_end => return Progress::Complete,
                    Sought::Nothing | Sought::Candidate => return self.begin(),
                }
            }
            match verified_message_at(&bytes[at..], self.reached.offset) {
                Ok(found) => {
                    at += found.bytes;
                    self.pass(found.bytes as u64, found.timestamp);
                }
                Err(Stop::Incomplete { .. }) if at == bytes.len() && at_end => {
                    return Progress::Complete;
                }
                Err(Stop::Incomplete { needed }) if !at_end => {
                    self.read_bytes = needed.max(READ_BYTES);
                    return self.begin();
                }
                Err(_) if self.end_offset.is_some() => {
                    // The damaged message itself starts here; the next one is behind at least a header.
                    self.seeking = Some(self.reached.position + 1);
                    at += 1;
                }
                Err(_) => return Progress::Stopped,
            }
        }
    }

    fn pass(&mut self, bytes: u64, timestamp: u64) {
        if self.reached.position - self.last_entry_position >= INTERVAL_BYTES {
            self.last_entry_position = self.reached.position;
            self.entries.push((self.reached, Kind::Boundary));
        }
        self.reached = Entry {
            offset: self.reached.offset + 1,
            position: self.reached.position + bytes,
            timestamp,
        };
    }

    /// Look for the next message that is certainly one. `from` is the position of `bytes` in the file.
    fn seek(&mut self, from: u64, bytes: &[u8], at_end: bool) -> Sought {
        let end_offset = self.end_offset.unwrap_or(u64::MAX);
        let places = (bytes.len() + 1).saturating_sub(HEADER_BYTES);
        for at in 0..places {
            let Some(header) = bytes[at..].first_chunk::<HEADER_BYTES>() else {
                break;
            };
            let header = HeaderView(header);
            let offset = header.offset();
            if offset <= self.reached.offset || offset >= end_offset || !is_plausible(header) {
                continue;
            }
            let length = header.message_bytes();
            if length > (bytes.len() - at) as u64 {
                if at_end {
                    continue;
                }
                // Only a read that holds all of it can tell.
                self.seeking = Some(from + at as u64);
                self.read_bytes = length.max(READ_BYTES);
                return Sought::Candidate;
            }
            let length = usize::try_from(length).expect("fits the bytes");
            if checksum_matches(&bytes[at..at + length]) {
                self.seeking = None;
                self.reached = Entry {
                    offset,
                    position: from + at as u64,
                    // Those before may have had any up to this one: a search by timestamp must not skip them.
                    timestamp: header.timestamp(),
                };
                // A reader that starts here does not meet the damage.
                self.last_entry_position = self.reached.position;
                self.entries.push((self.reached, Kind::Resumed));
                return Sought::Found(at);
            }
        }
        self.seeking = Some(from + places.max(1) as u64);
        Sought::Nothing
    }
}

enum Sought {
    /// A message starts here.
    Found(usize),
    /// There may be one, longer than the bytes at hand.
    Candidate,
    /// None starts in these bytes.
    Nothing,
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use headrace_wire::message::HeaderMut;

    use super::*;
    use crate::stamp::Stamp;

    fn log(payloads: &[usize]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (index, payload) in payloads.iter().enumerate() {
            let mut header = [0; HEADER_BYTES];
            let mut fields = HeaderMut(&mut header);
            fields.set_payload_length(u32::try_from(*payload).expect("short"));
            bytes.extend_from_slice(&header);
            bytes.resize(
                bytes.len() + payload,
                u8::try_from(index % 256).expect("a byte"),
            );
        }
        let stamp = Stamp {
            base_offset: 0,
            position: 0,
            timestamp: 5,
            timestamp_before: 0,
            entry_position: 0,
            random: &mut Rng::with_seed(1),
            entries: &mut Vec::new(),
        };
        let count = u32::try_from(payloads.len()).expect("few");
        stamp.apply(&mut bytes, count).expect("well-formed");
        bytes
    }

    fn run(scan: &mut Scan, file: &[u8]) -> Progress {
        let mut progress = scan.begin();
        while let Progress::Read { position, length } = progress {
            let start = usize::try_from(position).expect("small").min(file.len());
            let end = (start + length as usize).min(file.len());
            progress = scan.feed(&file[start..end], length);
        }
        progress
    }

    const START: Entry = Entry {
        offset: 0,
        position: 0,
        timestamp: 0,
    };

    /// LOG-11: everything is found, across pieces and with a message larger than one.
    #[test]
    fn an_undamaged_log_is_walked_to_its_end() {
        let file = log(&[400_000, 400_000, 400_000, 3_000_000, 10, 700_000]);
        let mut scan = Scan::up_to_damage(START, file.len() as u64);
        assert_eq!(run(&mut scan, &file), Progress::Complete);
        assert_eq!(scan.reached.offset, 6);
        assert_eq!(scan.reached.position, file.len() as u64);
        assert_eq!(scan.reached.timestamp, 5);
        let offsets: Vec<u64> = scan.entries.iter().map(|(entry, _)| entry.offset).collect();
        assert_eq!(
            offsets,
            [1, 2, 3, 4],
            "message 5 starts 74 bytes behind message 4"
        );
    }

    /// LOG-11: wherever a log is cut, the whole messages before are what is found.
    #[test]
    fn a_torn_tail_ends_the_walk() {
        let file = log(&[100, 0, 30]);
        for cut in 0..file.len() {
            let mut scan = Scan::up_to_damage(START, cut as u64);
            let progress = run(&mut scan, &file[..cut]);
            let whole = [164, 228, 322].iter().filter(|end| cut >= **end).count() as u64;
            assert_eq!(scan.reached.offset, whole, "cut at {cut}");
            let on_boundary = [0, 164, 228].contains(&cut);
            assert_eq!(progress == Progress::Complete, on_boundary, "cut at {cut}");
        }
    }

    /// LOG-12: a rebuilt index leads around damage, whichever byte it hits.
    #[test]
    fn a_rebuild_finds_the_messages_behind_damage() {
        let mut file = log(&[100, 80, 60, 40]);
        let end = file.len() as u64;
        for place in 164..164 + 144 {
            file[place] ^= 0x55;
            let mut scan = Scan::over_damage(START, end, 4);
            assert_eq!(run(&mut scan, &file), Progress::Complete);
            assert_eq!(scan.entries.len(), 1, "damage at {place}");
            assert_eq!(scan.entries[0].1, Kind::Resumed);
            assert_eq!(scan.entries[0].0.offset, 2);
            assert_eq!(scan.reached.offset, 4);
            file[place] ^= 0x55;
        }
    }

    #[test]
    fn damage_larger_than_a_piece_is_passed() {
        let mut file = log(&[100, 2_500_000, 100, 100]);
        file[164..2_500_100].fill(0);
        let mut scan = Scan::over_damage(START, file.len() as u64, 4);
        assert_eq!(run(&mut scan, &file), Progress::Complete);
        assert_eq!(scan.reached.offset, 4);
        assert_eq!(scan.entries[0].0.offset, 2);
    }
}
