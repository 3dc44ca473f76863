//! Tuning of the allocator's handling of freed memory.

/// Maximum size of blocks that are allocated on the heap. gRPC responses have 1 MiB, with a few copies in flight.
const HEAP_BLOCK_BYTES_MAX: i32 = 8 * 1024 * 1024;
/// Bytes at the top of a heap that stay with the process when free. glibc has a heap for every few threads.
const KEPT_BYTES: i32 = 16 * 1024 * 1024;

/// Have the allocator of the C library keep freed memory for reuse. Returns whether it does.
///
/// By default glibc returns each block of some hundred kilobytes to the kernel when it is freed, and has it mapped and
/// zeroed, page by page, when the next one is wanted. A process that moves batches through Python pays more for that
/// than for anything that it does with them: `make bench ARGS="--only fetch"` shows it. Other C libraries are left as
/// they are.
pub fn keep_freed_memory() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let set = |parameter, value| {
            // SAFETY: mallopt takes two numbers and synchronises by the allocator's own lock.
            unsafe { libc::mallopt(parameter, value) == 1 }
        };
        set(libc::M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES_MAX) && set(libc::M_TRIM_THRESHOLD, KEPT_BYTES)
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    false
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn a_freed_block_is_there_for_the_next_one() {
        assert!(keep_freed_memory());
        let faults = || {
            let fields = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // After the name, which may contain spaces: state, five numbers, flags, minor faults.
            let behind = fields.rsplit_once(')').unwrap().1;
            behind
                .split_whitespace()
                .nth(7)
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        // Several copies at once, enough together to make the allocator return memory.
        let copies = || std::hint::black_box(vec![vec![1_u8; 1024 * 1024]; 6]);
        drop(copies());
        let before = faults();
        for _ in 0..16 {
            drop(copies());
        }
        // If mapped anew, each of them has 256 pages to fault in, or one of 2 MiB.
        assert!(faults() - before < 16, "{} faults", faults() - before);
    }
}
