//! SHARD-10: if the kernel forbids the ring, a slower driver is used and reported.
//!
//! A seccomp filter on the test's own thread has the effect of a container's profile on a process.

use std::{io, thread};

use headrace_runtime::driver::{
    DriverChoice, Operation, Outcome, Selection, TaskOutput, Waker, Workers,
};

/// Answer system call `number` with `errno` from now on, on this thread only.
fn forbid(number: libc::c_long, errno: i32) {
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: u16::try_from(code).expect("codes are small"),
        jt: 0,
        jf: 0,
        k,
    };
    let number = u32::try_from(number).expect("numbers are small");
    let mut filter = [
        // The system call number is the first word of a filter's input.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            jf: 1,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number)
        },
        statement(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | errno.unsigned_abs(),
        ),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: both calls only read their arguments, which live until they return.
    let (first, second) = unsafe {
        (
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ),
        )
    };
    assert_eq!((first, second), (0, 0), "{}", io::Error::last_os_error());
}

fn on_a_thread_without(number: libc::c_long, errno: i32, test: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        forbid(number, errno);
        test();
    })
    .join()
    .expect("the test on the other thread");
}

fn works(selection: &Selection) {
    let workers = Workers::new(Workers::threads_by_default());
    let mut driver = selection
        .open(Waker::new().expect("a descriptor"), workers)
        .expect("a driver opens");
    assert_eq!(driver.name(), "poll");
    driver.submit(1, Operation::Task(Box::new(|| Ok(TaskOutput::new(7_u8)))));
    let mut completions = Vec::new();
    while completions.is_empty() {
        driver.poll(None, &mut completions).expect("it works");
    }
    match completions.remove(0).outcome {
        Outcome::Task(Ok(output)) => assert_eq!(output.take::<u8>(), 7),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_forbidden_ring_is_replaced_and_explained() {
    for (errno, code) in [
        (libc::EPERM, "EPERM"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::ENOMEM, "ENOMEM"),
    ] {
        on_a_thread_without(libc::SYS_io_uring_setup, errno, move || {
            let selection = Selection::decide(DriverChoice::Auto).expect("auto never fails");
            assert_eq!(selection.name(), "poll");
            let fallback = selection.fallback().expect("there is a reason");
            assert_eq!(fallback.code, code);
            assert!(!fallback.reason.is_empty() && !fallback.remedy.is_empty());
            let line = selection.to_string();
            assert!(
                line.contains(code) && line.contains(fallback.remedy),
                "{line}"
            );
            works(&selection);
            let refused = Selection::decide(DriverChoice::Uring).expect_err("it was demanded");
            assert!(refused.to_string().contains(code));
        });
    }
}

/// A profile that allows a ring to be created but not to be used.
#[test]
fn a_ring_that_cannot_be_used_is_no_ring() {
    for number in [libc::SYS_io_uring_enter, libc::SYS_io_uring_register] {
        on_a_thread_without(number, libc::EPERM, || {
            let selection = Selection::decide(DriverChoice::Auto).expect("auto never fails");
            assert_eq!(
                selection.fallback().map(|fallback| fallback.code.as_str()),
                Some("EPERM")
            );
            works(&selection);
        });
    }
}

/// A ring that is refused only later, to one of the shards.
#[test]
fn a_ring_refused_after_the_decision_is_replaced() {
    let automatic = Selection::decide(DriverChoice::Auto).expect("auto never fails");
    let demanded = Selection::decide(DriverChoice::Uring).expect("this machine has rings");
    on_a_thread_without(libc::SYS_io_uring_setup, libc::ENOMEM, move || {
        works(&automatic);
        let waker = Waker::new().expect("a descriptor");
        let workers = Workers::new(Workers::threads_by_default());
        match demanded.open(waker, workers) {
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOMEM)),
            Ok(driver) => panic!("{} instead of the ring", driver.name()),
        }
    });
}
