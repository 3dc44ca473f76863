use alloc::vec;

use super::*;

const SEGMENT: Offset = Offset(0);

struct Filler {
    tail: Tail,
    pool: BufferPool,
    position: u64,
    next: u64,
}

impl Filler {
    fn new(budget_bytes: u64) -> Self {
        Self {
            tail: Tail::new(budget_bytes),
            pool: BufferPool::new(1 << 30),
            position: 0,
            next: 0,
        }
    }

    fn spot(&self) -> AppendPosition {
        AppendPosition {
            segment: SEGMENT,
            position: self.position,
            base: Offset(self.next),
            timestamp_before: self.next,
            now: Timestamp(self.next),
        }
    }

    /// Push a batch of one message, whose bytes the tail never reads.
    fn small(&mut self, length: usize) {
        let spot = self.spot();
        let room = self.tail.reserve_small(length, spot, &self.pool);
        room.expect("memory")
            .fill(u8::try_from(self.next % 256).expect("a byte"));
        self.advance(length);
        self.tail.commit_small(length, Offset(self.next), self.next);
    }

    fn whole(&mut self, length: usize) {
        let spot = self.spot();
        self.advance(length);
        let slice = Slice::from_vec(vec![0; length]);
        self.tail
            .push_buffer(slice, spot, Offset(self.next), self.next);
    }

    fn advance(&mut self, length: usize) {
        self.position += length as u64;
        self.next += 1;
    }
}

/// LOG-4: at most 1024 slices and 4 MiB per write, in order and without gaps.
#[test]
fn writes_are_gathered_within_their_limits() {
    let mut filler = Filler::new(u64::MAX);
    for index in 0..3000 {
        filler.whole(if index % 1000 == 999 { 9_000_000 } else { 100 });
    }
    let (mut position, mut end, mut writes) = (0, 0, 0);
    while let Some(gathered) = filler.tail.gather() {
        assert_eq!(gathered.position, position);
        assert!(gathered.slices.len() <= limits::WRITE_SLICES_MAX);
        assert!(gathered.bytes <= WRITE_BYTES_MAX as u64);
        let bytes: usize = gathered.slices.iter().map(Slice::len).sum();
        assert_eq!(bytes as u64, gathered.bytes);
        assert!(gathered.end.0 >= end && gathered.end.0 <= filler.next);
        position += gathered.bytes;
        end = gathered.end.0;
        writes += 1;
    }
    assert_eq!((position, end), (filler.position, filler.next));
    assert!(writes <= 12, "{writes}");
    assert_eq!(filler.tail.queued_bytes(), 0);
}

#[test]
fn small_batches_are_adjacent_until_they_are_gathered() {
    let mut filler = Filler::new(u64::MAX);
    for _ in 0..10 {
        filler.small(100);
    }
    let gathered = filler.tail.gather().expect("queued");
    assert_eq!((gathered.slices.len(), gathered.bytes), (1, 1000));
    filler.small(100);
    assert_eq!(
        filler.tail.chunks.len(),
        2,
        "the first block is being written"
    );
    drop(gathered);
    filler.small(100);
    let gathered = filler.tail.gather().expect("queued");
    assert_eq!((gathered.slices.len(), gathered.position), (1, 1000));
    drop(gathered);
    filler.small(100);
    let gathered = filler.tail.gather().expect("queued");
    assert_eq!((gathered.position, gathered.end), (1200, Offset(13)));
    assert_eq!(*gathered.slices[0], [12; 100]);
}

/// A write that did not happen is gathered again, together with later appends.
#[test]
fn a_rewind_queues_what_was_not_written() {
    let mut filler = Filler::new(u64::MAX);
    filler.small(100);
    filler.small(100);
    drop(filler.tail.gather());
    filler.small(50);
    filler.whole(20_000);
    let lost = filler.tail.gather().expect("queued");
    assert_eq!((lost.position, lost.bytes), (200, 20_050));
    drop(lost);
    filler.small(70);
    filler.tail.rewind(SEGMENT, 200);
    assert_eq!(filler.tail.queued_bytes(), 20_120);
    let again = filler.tail.gather().expect("queued");
    assert_eq!(
        (again.position, again.bytes, again.end),
        (200, 20_120, Offset(5))
    );
    assert!(filler.tail.gather().is_none());
}

/// SHARD-12: the budget holds, except for messages not written yet.
#[test]
fn only_written_chunks_are_let_go() {
    let mut filler = Filler::new(50_000);
    for _ in 0..10 {
        filler.whole(20_000);
    }
    filler.tail.evict(|_| false);
    assert_eq!(filler.tail.memory_bytes(), 200_000);
    filler.tail.evict(|chunk| chunk.end <= Offset(4));
    assert_eq!(filler.tail.front().map(|chunk| chunk.base), Some(Offset(4)));
    let gathered = filler.tail.gather().expect("queued");
    assert_eq!(gathered.position, 80_000);
    filler.tail.evict(|_| true);
    assert_eq!(filler.tail.memory_bytes(), 40_000);
    assert_eq!(filler.tail.chunk_index(Offset(7)), None);
    assert_eq!(filler.tail.chunk_index(Offset(9)), Some(1));
    assert_eq!(
        filler.tail.chunk_since(9).map(|chunk| chunk.base),
        Some(Offset(8))
    );
}
