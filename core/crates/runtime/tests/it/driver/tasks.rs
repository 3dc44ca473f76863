//! Blocking work, wake-ups and waiting.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use headrace_runtime::driver::{DriverChoice, Operation, Outcome, TaskOutput};

use crate::driver::harness::{Host, errno};

fn task(work: impl FnOnce() -> io::Result<TaskOutput> + Send + 'static) -> Operation {
    Operation::Task(Box::new(work))
}

fn output(outcome: Outcome) -> io::Result<TaskOutput> {
    match outcome {
        Outcome::Task(result) => result,
        other => panic!("{other:?}"),
    }
}

pub fn runs_work_elsewhere(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let here = thread::current().id();
    let token = host.submit(task(move || {
        thread::sleep(Duration::from_millis(20));
        assert_ne!(thread::current().id(), here);
        Ok(TaskOutput::new(String::from("value")))
    }));
    // The completion ends the wait, not the timeout.
    let clock = Instant::now();
    while !host.has_arrived(token) {
        host.turn(None);
    }
    assert!(clock.elapsed() < Duration::from_secs(5));
    assert_eq!(output(host.wait(token)).unwrap().take::<String>(), "value");
    let tokens: Vec<u64> = (0..200_u64)
        .map(|n| host.submit(task(move || Ok(TaskOutput::new(n)))))
        .collect();
    for (n, token) in (0..).zip(tokens) {
        assert_eq!(output(host.wait(token)).unwrap().take::<u64>(), n);
    }
}

pub fn a_panic_is_an_error(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let token = host.submit(task(|| panic!("on purpose")));
    assert!(output(host.wait(token)).is_err());
    // The thread survives.
    let token = host.submit(task(|| Err(io::Error::from_raw_os_error(libc::ENOSPC))));
    assert_eq!(errno(output(host.wait(token))), libc::ENOSPC);
}

pub fn takes_back_what_has_not_begun(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let blocking: Vec<u64> = (0..64)
        .map(|_| {
            let released = Arc::clone(&released);
            host.submit(task(move || {
                let _ = released.lock().map(|released| released.recv());
                Ok(TaskOutput::nothing())
            }))
        })
        .collect();
    let ran = Arc::new(AtomicBool::new(false));
    let late = host.submit(task({
        let ran = Arc::clone(&ran);
        move || {
            ran.store(true, Ordering::Relaxed);
            Ok(TaskOutput::nothing())
        }
    }));
    host.driver.cancel(late);
    assert_eq!(errno(output(host.wait(late))), libc::ECANCELED);
    drop(release);
    for token in blocking {
        output(host.wait(token)).unwrap();
    }
    assert!(!ran.load(Ordering::Relaxed));
}

pub fn wakes_from_another_thread(choice: DriverChoice) {
    let mut host = Host::new(choice);
    for _ in 0..3 {
        let waker = host.driver.waker();
        let clock = Instant::now();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(30));
            waker.wake();
        });
        assert_eq!(host.turn(None), 0);
        assert!(clock.elapsed() >= Duration::from_millis(25));
        other.join().unwrap();
    }
}

pub fn coalesces_wake_ups(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let waker = host.driver.waker();
    // While the driver is awake, wake-ups cost nothing and make the next wait return at once, once.
    for _ in 0..1000 {
        waker.wake();
    }
    assert_eq!(host.turn(Some(Duration::from_secs(10))), 0);
    let clock = Instant::now();
    assert_eq!(host.turn(Some(Duration::from_millis(50))), 0);
    assert!(
        clock.elapsed() >= Duration::from_millis(45),
        "{:?}",
        clock.elapsed()
    );
}

pub fn waits_no_longer_than_asked(choice: DriverChoice) {
    let mut host = Host::new(choice);
    for wanted in [
        Duration::from_micros(300),
        Duration::from_millis(7),
        Duration::from_millis(60),
    ] {
        let clock = Instant::now();
        assert_eq!(host.turn(Some(wanted)), 0);
        let waited = clock.elapsed();
        assert!(waited >= wanted, "{waited:?} instead of {wanted:?}");
        assert!(
            waited < wanted + Duration::from_secs(5),
            "{waited:?} instead of {wanted:?}"
        );
    }
    let clock = Instant::now();
    assert_eq!(host.turn(Some(Duration::ZERO)), 0);
    assert!(clock.elapsed() < Duration::from_secs(5));
}

/// A message and its wake-up may come at any moment of the driver's turn; the next wait must end because of it.
pub fn never_misses_a_wake_up(choice: DriverChoice) {
    const MESSAGES: u64 = 20_000;
    let mut host = Host::new(choice);
    let sent = Arc::new(AtomicU64::new(0));
    let seen = Arc::new(AtomicU64::new(0));
    let other = thread::spawn({
        let (waker, sent, seen) = (host.driver.waker(), Arc::clone(&sent), Arc::clone(&seen));
        move || {
            for message in 1..=MESSAGES {
                sent.store(message, Ordering::Relaxed);
                waker.wake();
                if message % 7 == 0 {
                    while seen.load(Ordering::Acquire) < message {
                        std::hint::spin_loop();
                        thread::yield_now();
                    }
                }
            }
        }
    });
    let mut latest = 0;
    while latest < MESSAGES {
        let clock = Instant::now();
        host.turn(Some(Duration::from_secs(10)));
        assert!(
            clock.elapsed() < Duration::from_secs(10),
            "a wake-up was missed"
        );
        latest = sent.load(Ordering::Relaxed);
        seen.store(latest, Ordering::Release);
    }
    other.join().unwrap();
}
