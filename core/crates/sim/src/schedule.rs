//! Event queue: a deterministic total order of scheduled events.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events ordered by time, then by class, then by the order in which they were scheduled.
#[derive(Debug)]
pub struct Schedule<T> {
    heap: BinaryHeap<Entry<T>>,
    planned: u64,
    now_ns: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at_ns: u64,
    class: u8,
    sequence: u64,
    event: T,
}

impl<T> Entry<T> {
    const fn key(&self) -> (u64, u8, u64) {
        (self.at_ns, self.class, self.sequence)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap returns the greatest element first.
        other.key().cmp(&self.key())
    }
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            planned: 0,
            now_ns: 0,
        }
    }
}

impl<T> Schedule<T> {
    /// Virtual time: that of the event taken last.
    pub const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Schedule `event`; a time in the past means now. Lower classes come first at equal times.
    pub fn plan(&mut self, at_ns: u64, class: u8, event: T) {
        self.heap.push(Entry {
            at_ns: at_ns.max(self.now_ns),
            class,
            sequence: self.planned,
            event,
        });
        self.planned += 1;
    }

    /// Time of the next event.
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.at_ns)
    }

    /// Take the next event and advance the time to it.
    pub fn take(&mut self) -> Option<T> {
        let entry = self.heap.pop()?;
        self.now_ns = entry.at_ns;
        Some(entry.event)
    }

    /// Advance the time without an event.
    pub fn skip_to(&mut self, at_ns: u64) {
        self.now_ns = self.now_ns.max(at_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_class_then_plan() {
        let mut schedule = Schedule::default();
        schedule.plan(20, 0, "late");
        schedule.plan(10, 1, "second class");
        schedule.plan(10, 0, "first");
        schedule.plan(10, 0, "second");
        let order: Vec<_> = std::iter::from_fn(|| schedule.take()).collect();
        assert_eq!(order, ["first", "second", "second class", "late"]);
        assert_eq!(schedule.now_ns(), 20);
    }

    #[test]
    fn the_past_is_now() {
        let mut schedule = Schedule::default();
        schedule.plan(10, 0, 1);
        schedule.take();
        schedule.plan(3, 0, 2);
        assert_eq!(schedule.next_ns(), Some(10));
    }
}
