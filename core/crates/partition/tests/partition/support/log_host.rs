//! One log with its disk, without a partition around it.

use fastrand::Rng;
use headrace_buffer::BufferPool;
use headrace_log::{
    Appended, Batch, Log, LogConfig, LogPlace, Messages, Notice, ReadError, ReadFrom, Run,
    RunError, Started,
};
use headrace_model::{Offset, Timestamp};
use headrace_partition::storage::{FileName, StorageRequest};
use headrace_wire::message::{CHECKSUM_BYTES, HeaderMut, checksum};

use super::disk::{Crash, Disk};
use super::in_flight::{Event, InFlight};
use super::messages::{Sent, batch, packed};

#[derive(Debug)]
pub struct LogHost {
    pub config: LogConfig,
    pub log: Log,
    pub disk: Disk,
    pub now: Timestamp,
    pub random: Rng,
    /// True if effects and completions happen in any order, false if in that of the requests.
    pub is_shuffled: bool,
    out: Vec<StorageRequest>,
    under_way: InFlight,
}

impl LogHost {
    pub fn new(config: LogConfig) -> Self {
        let mut host = Self::begin(
            config,
            Disk::default(),
            Timestamp(1_000_000),
            Rng::with_seed(1),
        );
        host.settle();
        host
    }

    fn begin(config: LogConfig, disk: Disk, now: Timestamp, mut random: Rng) -> Self {
        let mut out = Vec::new();
        let pool = BufferPool::new(1 << 30);
        let log = Log::open(config.clone(), pool, random.u64(..), &mut out);
        Self {
            config,
            log,
            disk,
            now,
            random,
            is_shuffled: false,
            out,
            under_way: InFlight::default(),
        }
    }

    pub fn append(&mut self, messages: &[Sent]) -> Appended {
        let appended = self.log.append(self.now, batch(messages));
        appended.expect("appended")
    }

    pub fn append_run(
        &mut self,
        place: LogPlace,
        messages: &[u8],
        count: u32,
    ) -> Result<Appended, RunError> {
        let batch = Batch::copied(messages, count);
        self.log.append_stamped(self.now, Run { batch, place })
    }

    pub fn end_of_turn(&mut self) {
        self.log.end_of_turn(self.now, &mut self.out);
        self.collect();
    }

    /// Execute one event on the disk. Returns false if nothing is in flight.
    pub fn step(&mut self) -> bool {
        self.collect();
        let order = self.is_shuffled.then_some(&mut self.random);
        match self.under_way.step(&mut self.disk, order) {
            None => return false,
            Some(Event::Effect) => return true,
            Some(Event::Completion(completion)) => {
                self.log.complete(self.now, completion, &mut self.out);
            }
        }
        self.collect();
        true
    }

    /// Execute events until nothing is in flight.
    pub fn settle(&mut self) {
        self.end_of_turn();
        while self.step() {}
    }

    /// Let time pass, and do what is due.
    pub fn pass(&mut self, micros: u64) {
        self.pass_without_settling(micros);
        self.settle();
    }

    pub fn pass_without_settling(&mut self, micros: u64) {
        self.now.0 += micros;
        self.log.tick(self.now, &mut self.out);
        self.collect();
    }

    pub fn purge(&mut self) {
        self.config.purge_epoch += 1;
        self.log.purge(self.config.purge_epoch, &mut self.out);
    }

    pub fn read(&mut self, from: u64, count: u32) -> Result<Messages, ReadError> {
        self.read_within(ReadFrom::Offset(Offset(from)), count, u64::MAX)
    }

    pub fn read_within(
        &mut self,
        from: ReadFrom,
        count: u32,
        bytes_max: u64,
    ) -> Result<Messages, ReadError> {
        let started = self.log.read_within(from, count, bytes_max, &mut self.out);
        match started {
            Started::Done(result) => result,
            Started::Pending(id) => loop {
                if let Some((other, result)) = self.log.take_finished_read() {
                    assert_eq!(other, id);
                    return result;
                }
                assert!(self.step(), "a read without anything under way");
            },
        }
    }

    /// All visible messages.
    pub fn contents(&mut self) -> Vec<u8> {
        let mut contents = Vec::new();
        let mut from = self.log.first_offset();
        while from < self.log.visible_end() {
            let messages = self.read(from.0, 1000).expect("intact");
            contents.extend(messages.slices.iter().flat_map(|slice| slice.to_vec()));
            from = messages.last_offset.expect("there are some").advanced_by(1);
        }
        contents
    }

    /// Names and contents of the log files.
    pub fn segments(&self) -> Vec<(FileName, Vec<u8>)> {
        let files = self.disk.files().into_iter();
        let logs = files.filter(|file| matches!(file, FileName::Log(_)));
        logs.map(|file| (file, self.disk.content(file).to_vec()))
            .collect()
    }

    pub fn close(&mut self) {
        self.log.close(self.now, &mut self.out);
        self.settle();
        assert!(self.log.is_closed());
    }

    /// Close and open again. Returns the findings.
    pub fn restart(&mut self) -> Vec<Notice> {
        self.close();
        self.reopen()
    }

    /// Crash, and open again. Returns the findings.
    pub fn crash(&mut self, crash: Crash) -> Vec<Notice> {
        self.collect();
        self.under_way
            .crash(crash, &mut self.disk, &mut self.random);
        self.reopen()
    }

    fn reopen(&mut self) -> Vec<Notice> {
        self.now.0 += 1;
        let disk = std::mem::take(&mut self.disk);
        let is_shuffled = self.is_shuffled;
        *self = Self::begin(self.config.clone(), disk, self.now, self.random.fork());
        self.is_shuffled = is_shuffled;
        self.settle();
        assert_eq!(self.log.failure(), None);
        assert!(self.log.is_open());
        self.log.take_notices()
    }

    fn collect(&mut self) {
        for request in self.out.drain(..) {
            self.under_way.begin(request);
        }
    }
}

/// Messages as a leader stamps them from this offset on, all with this time.
pub fn stamped(messages: &[Sent], base: u64, timestamp: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (offset, message) in (base..).zip(messages) {
        let mut message = packed(std::slice::from_ref(message));
        let mut header = HeaderMut(message.first_chunk_mut().expect("a header"));
        header.set_offset(offset);
        header.set_timestamp(timestamp);
        let sum = checksum(&message[CHECKSUM_BYTES..]);
        message[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
        bytes.extend_from_slice(&message);
    }
    bytes
}

/// Place in a log.
pub const fn place(segment: u64, position: u64, base: u64) -> LogPlace {
    LogPlace {
        segment: Offset(segment),
        position,
        base: Offset(base),
    }
}
