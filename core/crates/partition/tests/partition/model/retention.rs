//! Removal in the model: by retention, and by requests to delete segments.

use headrace_model::Timestamp;
use headrace_partition::{Request, Response, Retention};

use super::Model;

impl Model {
    /// The smallest stored offset.
    pub(super) fn barrier(&self) -> Option<u64> {
        let consumers = self.offsets.keys();
        consumers
            .filter_map(|consumer| self.latest(*consumer))
            .min()
    }

    pub(super) fn delete_segments(&mut self, count: u32) {
        let barrier = self.barrier();
        let before = self.first;
        let answer = self.world.ask(Request::DeleteSegments { count });
        assert_eq!(answer, Ok(Response::Done));
        self.first = self.world.partition.first_offset().0;
        assert!(self.first >= before);
        if self.first > before {
            // Removed segments contain no message that a consumer still needs.
            assert!(barrier.is_none_or(|barrier| barrier >= self.first - 1));
        }
    }

    /// Apply retention, and check the immediate removal by size.
    pub(super) fn retain(
        &mut self,
        (age, roll_bytes): (u64, u64),
        remove_oldest: bool,
        keeps_unread: bool,
    ) {
        let barrier = self.barrier();
        if remove_oldest {
            let size = self.world.statistics.size_bytes();
            let is_gone = self.world.remove_oldest(keeps_unread);
            let first = self.world.partition.first_offset().0;
            assert_eq!(is_gone, first > self.first);
            assert_eq!(is_gone, self.world.statistics.size_bytes() < size);
            if is_gone {
                let is_read = barrier.is_none_or(|barrier| barrier >= first - 1);
                assert!(is_read || !keeps_unread);
            }
            self.first = first;
        }
        let expired_before = Timestamp(self.world.now.0.saturating_sub(age));
        self.retention = (expired_before, keeps_unread);
        self.world.retain(
            Retention {
                expired_before,
                roll_before: expired_before,
                roll_bytes,
            },
            keeps_unread,
        );
    }

    /// Check that retention by age removed only expired messages, and no unread ones if those are kept.
    pub(super) fn removed(
        &mut self,
        (expired_before, keeps_unread): (Timestamp, bool),
        barrier: Option<u64>,
    ) {
        let first = self.world.partition.first_offset().0;
        for offset in self.first..first {
            assert!(
                self.known(offset).timestamp < expired_before.0,
                "message {offset} is not too old"
            );
        }
        if first > self.first && keeps_unread {
            assert!(barrier.is_none_or(|barrier| barrier >= first - 1));
        }
        self.first = first;
    }
}
