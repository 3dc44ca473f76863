//! Sequential scan of a log file for its messages, for recovery and for rebuilding an index.

use alloc::vec::Vec;

use headrace_model::Offset;
use headrace_wire::message::{HEADER_BYTES, HeaderView};

use crate::entry::{Entry, INTERVAL_BYTES, Kind};
use crate::manifest::KnownMessage;
use crate::walk::{NoMessage, checksum_matches, is_plausible, verified_message_at};

/// Size of one read while scanning; more if a message is larger.
const READ_BYTES: u64 = 1024 * 1024;
/// Unit in which a device writes, or a fraction of it.
const SECTOR_BYTES: u64 = 512;
/// Minimum number of zeros at the end of a sector that identify it as unwritten: a header has fewer in a row.
const UNWRITTEN_ZEROS_MIN: u64 = 32;

/// Next step of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Bytes to read.
    Read {
        /// Position in the log file.
        position: u64,
        /// Number of bytes.
        length: u32,
    },
    /// All messages up to the end were found.
    Complete,
    /// The bytes behind the boundary reached are not a whole valid message.
    Stopped,
}

/// Scan of one segment from a known boundary to its end that verifies every message.
#[derive(Debug)]
pub(crate) struct Scan {
    /// Boundary reached so far; its timestamp is that of the message before.
    pub(crate) reached: Entry,
    /// Boundaries about every 8 KiB, and the first one behind each damaged region.
    pub(crate) entries: Vec<(Entry, Kind)>,
    /// End of the file, or of the range to be scanned.
    end: u64,
    last_entry_position: u64,
    /// Last whole message.
    pub(crate) last_message: Option<KnownMessage>,
    behind_damage: DamagePolicy,
    /// Boundary that was on the device: no message before it is a torn one.
    floor: Option<Entry>,
    /// Offset of the first message that does not count, if there is one.
    end_offset: Option<u64>,
    /// Position from which the next message behind damage is searched.
    seeking: Option<u64>,
    read_bytes: u64,
    /// Damaged messages in the middle.
    pub(crate) damage: Option<Damage>,
    /// Place behind each damaged region, and that region, if they are collected.
    pub(crate) regions: Option<Vec<(u64, Damage)>>,
    /// Timestamp of the message that the end of the file truncates, 0 if there is none.
    stopped_timestamp: u64,
    /// Properties of the damaged region that is being passed.
    hole: ZeroRuns,
}

/// Behavior of a scan where there is no whole valid message.
#[derive(Debug, Clone, Copy)]
enum DamagePolicy {
    /// The scan ends.
    Unknown,
    /// The scan continues up to this offset after the last message.
    UpTo(u64),
    /// The scan continues with messages that must have followed the damaged ones, but not with the remains of a write
    /// torn by a loss of power.
    IntactFollowers,
}

/// Damaged messages in the middle of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Offset of the first damaged message.
    pub(crate) offset: u64,
    /// Position of the first damaged message in the file.
    pub(crate) position: u64,
    /// Number of damaged messages.
    pub(crate) messages_count: u64,
}

/// Zero runs in the bytes of a damaged region.
#[derive(Debug, Clone, Copy)]
struct ZeroRuns {
    /// Position where the region starts: the end of a message.
    start: u64,
    /// Length of the run of zeros that ends at the last byte examined.
    zeros: u64,
    /// True if a sector ends in zeros, like one that was never or only partly written.
    is_unwritten: bool,
}

impl ZeroRuns {
    const fn new(start: u64) -> Self {
        Self {
            start,
            zeros: 0,
            is_unwritten: false,
        }
    }

    fn take(&mut self, position: u64, bytes: &[u8]) {
        for (end, byte) in (position + 1..).zip(bytes) {
            self.zeros = if *byte == 0 { self.zeros + 1 } else { 0 };
            // A write that begins near the end of a sector leaves few zeros there, all of the message's bytes. Damage at
            // rest is no such hole: it begins at the end of a message by chance only.
            let is_run = self.zeros >= UNWRITTEN_ZEROS_MIN || self.zeros == end - self.start;
            if is_run && end.is_multiple_of(SECTOR_BYTES) {
                self.is_unwritten = true;
            }
        }
    }
}

impl Scan {
    /// Scan from `start` to `end`, stopping at the first message that is not whole and valid.
    pub(crate) fn until_damage(start: Entry, end: u64) -> Self {
        Self {
            reached: start,
            entries: Vec::new(),
            end,
            last_entry_position: start.position,
            last_message: None,
            behind_damage: DamagePolicy::Unknown,
            floor: None,
            end_offset: None,
            seeking: None,
            read_bytes: READ_BYTES,
            damage: None,
            regions: None,
            stopped_timestamp: 0,
            hole: ZeroRuns::new(start.position),
        }
    }

    /// Take everything before this boundary for damage, not for a torn tail, if it is not intact.
    pub(crate) fn with_floor(self, floor: Option<Entry>) -> Self {
        Self { floor, ..self }
    }

    /// End the scan before the message with this offset.
    pub(crate) fn with_end_offset(self, end_offset: Option<Offset>) -> Self {
        Self {
            end_offset: end_offset.map(|end| end.0),
            ..self
        }
    }

    /// Return whether the scan has ended before messages that do not count.
    pub(crate) fn is_at_end_offset(&self) -> bool {
        self.has_all() && self.reached.position < self.end
    }

    /// Return whether no message is left that counts.
    fn has_all(&self) -> bool {
        self.end_offset
            .is_some_and(|end| self.reached.offset >= end)
    }

    /// Scan from `start` to `end`, where the message `end_offset` would start, skipping damage.
    pub(crate) fn skipping_damage(start: Entry, end: u64, end_offset: u64) -> Self {
        Self {
            behind_damage: DamagePolicy::UpTo(end_offset),
            ..Self::until_damage(start, end)
        }
    }

    /// Search for messages behind the stop after [`Progress::Stopped`]. If there are any, the region is damage and not
    /// a torn tail.
    ///
    /// A process that is killed leaves the beginning of a write. A loss of power may leave any sectors of a write, so
    /// that whole messages follow a hole of zeros, because files grow in zeros. Those messages were not acknowledged
    /// and do not count as survivors. Neither do messages inside the payload of a torn message: their timestamps are
    /// earlier, because a server had stored them before.
    pub(crate) fn continue_behind_damage(&mut self) -> Progress {
        self.behind_damage = DamagePolicy::IntactFollowers;
        self.hole = ZeroRuns::new(self.reached.position);
        self.seeking = Some(self.reached.position);
        self.begin()
    }

    /// Return whether [`go_past_damage`](Self::go_past_damage) was called.
    pub(crate) fn goes_past_damage(&self) -> bool {
        matches!(self.behind_damage, DamagePolicy::IntactFollowers)
    }

    /// Return the first read, or the result if there is nothing to read.
    pub(crate) fn begin(&self) -> Progress {
        let position = self.seeking.unwrap_or(self.reached.position);
        if position >= self.end || self.has_all() {
            return Progress::Complete;
        }
        let length = self.read_bytes.min(self.end - position);
        Progress::Read {
            position,
            length: u32::try_from(length).expect("a message is smaller than 4 GiB"),
        }
    }

    /// Process the bytes read. Fewer than `asked` mean that the file ends there.
    pub(crate) fn feed(&mut self, bytes: &[u8], asked: u32) -> Progress {
        let start = self.seeking.unwrap_or(self.reached.position);
        let at_end = bytes.len() < asked as usize || start + u64::from(asked) >= self.end;
        self.read_bytes = READ_BYTES;
        let mut at = 0;
        loop {
            if let Some(from) = self.seeking {
                match self.seek(from, &bytes[at..], at_end) {
                    SeekResult::Found(found) => at += found,
                    SeekResult::Nothing if at_end => return self.ended(),
                    SeekResult::Unwritten => return Progress::Stopped,
                    SeekResult::Nothing | SeekResult::Candidate => return self.begin(),
                }
            }
            if self.has_all() {
                return Progress::Complete;
            }
            match verified_message_at(&bytes[at..], self.reached.offset) {
                Ok(found) => {
                    let checksum = bytes[at..]
                        .first_chunk()
                        .copied()
                        .map_or(0, u64::from_le_bytes);
                    self.last_message = Some(KnownMessage {
                        position: self.reached.position,
                        checksum,
                    });
                    at += found.bytes;
                    self.pass(found.bytes as u64, found.timestamp);
                }
                Err(NoMessage::Incomplete { .. }) if at == bytes.len() && at_end => {
                    return Progress::Complete;
                }
                Err(NoMessage::Incomplete { needed }) if !at_end => {
                    self.read_bytes = needed.max(READ_BYTES);
                    return self.begin();
                }
                Err(stop) => {
                    if matches!(stop, NoMessage::Incomplete { .. })
                        && let Some(header) = bytes[at..].first_chunk::<HEADER_BYTES>()
                    {
                        self.stopped_timestamp = HeaderView(header).timestamp();
                    }
                    if matches!(self.behind_damage, DamagePolicy::Unknown) {
                        return Progress::Stopped;
                    }
                    self.hole = ZeroRuns::new(self.reached.position);
                    self.seeking = Some(self.reached.position);
                }
            }
        }
    }

    /// Go on behind the boundary that was on the device, if the scan ended before it: the messages up to it are lost, but
    /// were there.
    pub(crate) fn pass_floor(&mut self) -> Option<Progress> {
        let floor = self
            .floor
            .take()
            .filter(|floor| floor.offset > self.reached.offset)?;
        let damage = self.damage.get_or_insert(Damage {
            offset: self.reached.offset,
            position: self.reached.position,
            messages_count: 0,
        });
        damage.messages_count += floor.offset - self.reached.offset;
        let position = floor.position.min(self.end).max(self.reached.position);
        self.reached = Entry { position, ..floor };
        self.seeking = None;
        self.behind_damage = DamagePolicy::Unknown;
        self.stopped_timestamp = 0;
        self.last_entry_position = position;
        if position < self.end {
            self.entries.push((self.reached, Kind::Resumed));
        }
        Some(self.begin())
    }

    /// Return whether everything before this position was on the device.
    fn was_synced(&self, position: u64) -> bool {
        self.floor.is_some_and(|floor| position < floor.position)
    }

    /// Result of a search behind damage that found no message.
    fn ended(&self) -> Progress {
        match self.behind_damage {
            DamagePolicy::IntactFollowers => Progress::Stopped,
            DamagePolicy::Unknown | DamagePolicy::UpTo(_) => Progress::Complete,
        }
    }

    /// Return whether a message with this header may start at `position`, behind at least one damaged message.
    fn is_possible_successor(&self, header: HeaderView<'_>, position: u64) -> bool {
        let Some(lost) = header.offset().checked_sub(self.reached.offset) else {
            return false;
        };
        // Each lost message has at least a header.
        let lost_max = (position - self.reached.position) / HEADER_BYTES as u64;
        let is_possible = match self.behind_damage {
            DamagePolicy::Unknown => false,
            DamagePolicy::UpTo(end_offset) => header.offset() < end_offset,
            DamagePolicy::IntactFollowers if self.was_synced(position) => true,
            DamagePolicy::IntactFollowers => {
                header.timestamp() >= self.reached.timestamp.max(self.stopped_timestamp)
            }
        };
        let counts = self.end_offset.is_none_or(|end| header.offset() <= end);
        is_possible && counts && lost > 0 && lost <= lost_max && is_plausible(header)
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

    /// Search for the next message that is certainly valid. `from` is the position of `bytes` in the file.
    fn seek(&mut self, from: u64, bytes: &[u8], at_end: bool) -> SeekResult {
        let places = (bytes.len() + 1).saturating_sub(HEADER_BYTES);
        for at in 0..places {
            let Some(header) = bytes[at..].first_chunk::<HEADER_BYTES>() else {
                break;
            };
            let header = HeaderView(header);
            if !self.is_possible_successor(header, from + at as u64) {
                continue;
            }
            let length = header.message_bytes();
            if length > (bytes.len() - at) as u64 {
                if at_end {
                    continue;
                }
                // The checksum can be verified only with a read of the whole message.
                self.hole.take(from, &bytes[..at]);
                self.seeking = Some(from + at as u64);
                self.read_bytes = length.max(READ_BYTES);
                return SeekResult::Candidate;
            }
            let length = usize::try_from(length).expect("fits the bytes");
            if checksum_matches(&bytes[at..at + length]) {
                self.hole.take(from, &bytes[..at]);
                let may_be_torn = self.goes_past_damage() && !self.was_synced(from + at as u64);
                if may_be_torn && self.hole.is_unwritten {
                    return SeekResult::Unwritten;
                }
                let offset = header.offset();
                let damage = self.damage.get_or_insert(Damage {
                    offset: self.reached.offset,
                    position: self.reached.position,
                    messages_count: 0,
                });
                damage.messages_count += offset - self.reached.offset;
                if let Some(regions) = &mut self.regions {
                    let region = Damage {
                        offset: self.reached.offset,
                        position: self.reached.position,
                        messages_count: offset - self.reached.offset,
                    };
                    regions.push((from + at as u64, region));
                }
                self.seeking = None;
                self.reached = Entry {
                    offset,
                    position: from + at as u64,
                    // The lost messages may have had any timestamp up to this one: a search by timestamp must not skip
                    // them.
                    timestamp: header.timestamp(),
                };
                // A reader that starts here does not meet the damage.
                self.last_entry_position = self.reached.position;
                self.entries.push((self.reached, Kind::Resumed));
                return SeekResult::Found(at);
            }
        }
        let passed = places.max(1);
        self.hole.take(from, &bytes[..passed.min(bytes.len())]);
        self.seeking = Some(from + passed as u64);
        SeekResult::Nothing
    }
}

enum SeekResult {
    /// A message starts here.
    Found(usize),
    /// A message may start here; it is longer than the bytes at hand.
    Candidate,
    /// A message starts here behind a region that was never written.
    Unwritten,
    /// No message starts in these bytes.
    Nothing,
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use headrace_wire::message::HeaderMut;

    use super::*;
    use crate::writing::stamp::Stamp;

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

    /// Scan a file in which these bytes are zeros, and go on behind them.
    fn run_behind(file: &[u8], zeros: core::ops::Range<usize>) -> (Scan, Progress) {
        let mut file = file.to_vec();
        file[zeros].fill(0);
        let mut scan = Scan::until_damage(START, file.len() as u64);
        assert_eq!(run(&mut scan, &file), Progress::Stopped);
        let mut progress = scan.continue_behind_damage();
        while let Progress::Read { position, .. } = progress {
            let start = usize::try_from(position).expect("small");
            progress = scan.feed(&file[start..], u32::MAX);
        }
        (scan, progress)
    }

    const START: Entry = Entry {
        offset: 0,
        position: 0,
        timestamp: 0,
    };

    /// LOG-11: all messages are found, across reads and with a message larger than one read.
    #[test]
    fn an_undamaged_log_is_walked_to_its_end() {
        let file = log(&[400_000, 400_000, 400_000, 3_000_000, 10, 700_000]);
        let mut scan = Scan::until_damage(START, file.len() as u64);
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

    /// LOG-11: a log cut at any byte yields the whole messages before the cut.
    #[test]
    fn a_torn_tail_ends_the_walk() {
        let file = log(&[100, 0, 30]);
        for cut in 0..file.len() {
            let mut scan = Scan::until_damage(START, cut as u64);
            let progress = run(&mut scan, &file[..cut]);
            let whole = [164, 228, 322].iter().filter(|end| cut >= **end).count() as u64;
            assert_eq!(scan.reached.offset, whole, "cut at {cut}");
            let on_boundary = [0, 164, 228].contains(&cut);
            assert_eq!(progress == Progress::Complete, on_boundary, "cut at {cut}");
        }
    }

    /// LOG-11: whole messages behind a hole of zeros are remains of a torn write; behind other damage they are
    /// survivors.
    #[test]
    fn what_follows_a_hole_is_not_taken_for_survivors() {
        let file = log(&[100, 2000, 60, 40]);
        for (harmed, survives) in [(512..1024, false), (700..1024, false), (700..1023, true)] {
            let (scan, progress) = run_behind(&file, harmed);
            let (offset, outcome) = if survives {
                (4, Progress::Complete)
            } else {
                (1, Progress::Stopped)
            };
            assert_eq!((scan.reached.offset, progress), (offset, outcome));
            assert_eq!(
                scan.damage.map(|damage| damage.messages_count),
                survives.then_some(1)
            );
        }
    }

    /// LOG-11: the hole is shorter than a header where the lost write begins near the end of a sector.
    #[test]
    fn a_hole_of_a_few_bytes_is_recognized_where_a_write_begins() {
        for zeros in 1..HEADER_BYTES {
            let file = log(&[512 - HEADER_BYTES - zeros, 100, 40]);
            let (scan, progress) = run_behind(&file, 512 - zeros..512);
            assert_eq!((scan.reached.offset, progress), (1, Progress::Stopped));
            assert_eq!(scan.damage, None, "{zeros} B");
        }
        // Few zeros behind a part of the message are no hole.
        for zeros in 2..16 {
            let file = log(&[512 - HEADER_BYTES - 16, 100, 40]);
            let (scan, progress) = run_behind(&file, 512 - zeros..512);
            assert_eq!((scan.reached.offset, progress), (3, Progress::Complete));
        }
    }

    /// LOG-12: a rebuilt index leads around damage at any byte.
    #[test]
    fn a_rebuild_finds_the_messages_behind_damage() {
        let mut file = log(&[100, 80, 60, 40]);
        let end = file.len() as u64;
        for place in 164..164 + 144 {
            file[place] ^= 0x55;
            let mut scan = Scan::skipping_damage(START, end, 4);
            assert_eq!(run(&mut scan, &file), Progress::Complete);
            assert_eq!(scan.entries.len(), 1, "damage at {place}");
            assert_eq!(scan.entries[0].1, Kind::Resumed);
            assert_eq!(scan.entries[0].0.offset, 2);
            assert_eq!(scan.reached.offset, 4);
            file[place] ^= 0x55;
        }
    }

    #[test]
    fn messages_of_the_next_segment_do_not_follow_damage() {
        let mut file = log(&[100, 80, 60, 40]);
        file[164] ^= 0x55;
        for (end_offset, reached) in [(2, 1), (3, 4)] {
            let mut scan = Scan::skipping_damage(START, file.len() as u64, end_offset);
            assert_eq!(run(&mut scan, &file), Progress::Complete);
            assert_eq!(
                scan.reached.offset, reached,
                "the segment ends at {end_offset}"
            );
        }
    }

    #[test]
    fn damage_larger_than_a_piece_is_passed() {
        let mut file = log(&[100, 2_500_000, 100, 100]);
        file[164..2_500_100].fill(0);
        let mut scan = Scan::skipping_damage(START, file.len() as u64, 4);
        assert_eq!(run(&mut scan, &file), Progress::Complete);
        assert_eq!(scan.reached.offset, 4);
        assert_eq!(scan.entries[0].0.offset, 2);
    }
}
