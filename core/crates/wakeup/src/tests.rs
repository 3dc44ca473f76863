use std::{sync::Mutex, thread};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

fn is_readable(wakeup: &Wakeup, seconds_max: i64) -> bool {
    let limit = Timespec {
        tv_sec: seconds_max,
        tv_nsec: 0,
    };
    poll(&mut [PollFd::new(wakeup, PollFlags::IN)], Some(&limit)).unwrap() == 1
}

#[test]
fn it_is_readable_from_a_wake_up_until_a_take() {
    let wakeup = Wakeup::new().unwrap();
    assert!(!is_readable(&wakeup, 0));
    wakeup.wake();
    wakeup.wake();
    assert!(is_readable(&wakeup, 0));
    assert_eq!(wakeup.take(|| 7), 7);
    assert!(!is_readable(&wakeup, 0));
    // A take without a preceding wake must work too.
    wakeup.take(|| ());
    wakeup.wake();
    assert!(is_readable(&wakeup, 0));
}

/// Test on real threads: a consumer that sleeps until woken finds everything that several producers store for it.
#[test]
fn nothing_is_left_behind_by_many_writers() {
    const WRITERS: u64 = 4;
    const EACH: u64 = 50_000;
    let wakeup = Wakeup::new().unwrap();
    let waiting = Mutex::new(0);
    let mut taken = 0;
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    *waiting.lock().unwrap() += 1;
                    wakeup.wake();
                }
            });
        }
        while taken < WRITERS * EACH {
            assert!(is_readable(&wakeup, 60), "lost after {taken}");
            taken += wakeup.take(|| std::mem::take(&mut *waiting.lock().unwrap()));
        }
    });
    assert_eq!(taken, WRITERS * EACH);
}
