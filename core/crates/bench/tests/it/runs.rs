//! The load generator against a null listener and against a small real server.
#![allow(
    clippy::disallowed_methods,
    reason = "the tests bound how long a run takes"
)]

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Fault, MemoryServer};
use headrace_bench::null::{NullListener, NullOptions};
use headrace_bench::{
    Amount, AtEnd, BenchConfig, BenchReport, Cursor, Mode, Phase, Placement, Progress, Setup, run,
};
use headrace_client::ClientError;
use headrace_wire::Status;

/// One null listener for all tests; it serves until the process ends.
fn null_listener() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    *ADDRESS.get_or_init(|| {
        let options = NullOptions {
            message_size_bytes: 100,
            messages_count_max: 50,
            ..NullOptions::default()
        };
        let listener = NullListener::bind("127.0.0.1:0", &options).expect("a free port");
        let address = listener.local_address().expect("bound");
        thread::spawn(move || listener.serve());
        address
    })
}

fn config(address: SocketAddr) -> BenchConfig {
    BenchConfig {
        address: address.to_string(),
        message_size_bytes: 100,
        messages_per_batch: 10,
        amount: Amount::Batches(20),
        ..BenchConfig::default()
    }
}

fn measure(config: BenchConfig) -> BenchReport {
    run(config, &Progress::default()).expect("a run without errors")
}

#[test]
fn producing_counts_what_was_acknowledged() {
    let report = measure(BenchConfig {
        producers: 3,
        server_pids: vec![std::process::id()],
        ..config(null_listener())
    });
    let producers = report.producers.expect("produced");
    assert_eq!(producers.requests, 60);
    assert_eq!(producers.messages, 600);
    assert_eq!(producers.payload_bytes, 60_000);
    assert_eq!(producers.message_bytes, 600 * 164);
    assert_eq!(producers.latency.count, 60);
    assert!(producers.latency.p50_micros <= producers.latency.max_micros);
    assert!(producers.latency_from_due.is_none());
    assert!(producers.wall_seconds > 0.0);
    assert_eq!(producers.actors.len(), 3);
    let partitions: Vec<_> = producers
        .actors
        .iter()
        .map(|actor| actor.partition_id)
        .collect();
    assert_eq!(partitions, [Some(0), Some(1), Some(2)]);
    assert!(producers.actors.iter().all(|actor| actor.requests == 20));
    assert!(report.consumers.is_none());
    assert!(
        report
            .server_cpu
            .expect("the process is known")
            .seconds_per_gb
            .is_some()
    );
    assert!(report.client_cpu.is_some());
    assert!(!report.stopped);
}

#[test]
fn consuming_counts_what_was_received() {
    let progress = Progress::default();
    let report = run(
        BenchConfig {
            mode: Mode::Consume,
            consumers: 2,
            messages_per_poll: 50,
            ..config(null_listener())
        },
        &progress,
    )
    .expect("a run without errors");
    let consumers = report.consumers.expect("consumed");
    // 20 batches of 10 are 200 messages for each, in polls of 50.
    assert_eq!(consumers.messages, 400);
    assert_eq!(consumers.requests, 8);
    assert_eq!(consumers.payload_bytes, 40_000);
    assert_eq!(consumers.empty_polls, 0);
    let last = progress.snapshot();
    assert_eq!(last.phase, Phase::Finished);
    assert_eq!(last.consumed_messages, 400);
    assert_eq!(last.consumed_bytes, 40_000);
    assert_eq!(last.expected_bytes, Some(40_000));
}

#[test]
fn every_report_survives_json() {
    let report = measure(BenchConfig {
        rate_limit_bytes_per_second: Some(10_000_000),
        ..config(null_listener())
    });
    assert!(
        report
            .producers
            .as_ref()
            .is_some_and(|group| group.latency_from_due.is_some())
    );
    let json = serde_json::to_string(&report).expect("serialisable");
    let mut back: BenchReport = serde_json::from_str(&json).expect("parses");
    // The password is not part of the report.
    back.config.password.clone_from(&report.config.password);
    assert_eq!(back.config, report.config);
    assert_eq!(
        back.producers.map(|group| group.latency),
        report.producers.map(|group| group.latency)
    );
}

#[test]
fn a_pipeline_loses_and_doubles_nothing() {
    let server = MemoryServer::start(Fault::None);
    let report = measure(BenchConfig {
        producers: 2,
        window: 7,
        verify: true,
        ..config(server.address)
    });
    assert_eq!(report.producers.expect("produced").requests, 40);
    assert_eq!(server.messages_counts(), [200, 200]);
}

#[test]
fn warm_up_is_work_that_is_not_counted() {
    let server = MemoryServer::start(Fault::None);
    let progress = Progress::default();
    let report = run(
        BenchConfig {
            warm_up_seconds: 1.0,
            ..config(server.address)
        },
        &progress,
    )
    .expect("a run without errors");
    assert_eq!(report.producers.expect("produced").messages, 200);
    assert_eq!(progress.snapshot().produced_messages, 200);
    assert!(server.messages_counts()[0] > 200);
}

#[test]
fn balanced_batches_are_the_servers_to_place() {
    let server = MemoryServer::start(Fault::None);
    let report = measure(BenchConfig {
        producers: 2,
        partitions: 4,
        placement: Placement::Balanced,
        delete_afterwards: false,
        ..config(server.address)
    });
    assert_eq!(report.partitions_count, 4);
    assert_eq!(server.messages_counts(), [100, 100, 100, 100]);
    let producers = report.producers.expect("produced");
    assert!(
        producers
            .actors
            .iter()
            .all(|actor| actor.partition_id.is_none())
    );
}

/// LOG-1 from a consumer's view: with producers and consumers at work every message arrives once, in order, undamaged.
#[test]
fn consumers_get_all_that_producers_send() {
    for cursor in [Cursor::Client, Cursor::Server] {
        let server = MemoryServer::start(Fault::None);
        // Messages from before the run are not part of it.
        measure(BenchConfig {
            producers: 2,
            amount: Amount::Batches(3),
            ..config(server.address)
        });
        let report = measure(BenchConfig {
            mode: Mode::Both,
            producers: 2,
            consumers: 2,
            amount: Amount::Bytes(100_000),
            messages_per_poll: 7,
            cursor,
            verify: true,
            delete_afterwards: true,
            ..config(server.address)
        });
        assert_eq!(
            report.producers.expect("produced").messages,
            1000,
            "{cursor:?}"
        );
        let consumers = report.consumers.expect("consumed");
        assert_eq!(consumers.payload_bytes, 100_000, "{cursor:?}");
        assert!(!server.has_stream());
    }
}

/// Two consumers of four partitions never get their share of all messages: they stop when nothing more can come.
#[test]
fn consumers_stop_after_the_producers() {
    let server = MemoryServer::start(Fault::None);
    let report = measure(BenchConfig {
        mode: Mode::Both,
        producers: 2,
        consumers: 2,
        partitions: 4,
        placement: Placement::Balanced,
        ..config(server.address)
    });
    assert_eq!(report.producers.expect("produced").messages, 400);
    let consumers = report.consumers.expect("consumed");
    assert_eq!(consumers.messages, 200);
    assert!(consumers.empty_polls >= 2);
}

#[test]
fn consumers_stop_or_start_again_at_the_end() {
    let server = MemoryServer::start(Fault::None);
    measure(config(server.address));
    let consume = BenchConfig {
        mode: Mode::Consume,
        setup: Setup::Existing,
        verify: true,
        amount: Amount::Batches(50),
        ..config(server.address)
    };
    for cursor in [Cursor::Client, Cursor::Server] {
        let consume = BenchConfig {
            cursor,
            ..consume.clone()
        };
        let stopped = measure(BenchConfig {
            at_end: AtEnd::Stop,
            ..consume.clone()
        });
        assert_eq!(stopped.consumers.expect("consumed").messages, 200);
        let again = measure(BenchConfig {
            at_end: AtEnd::Rewind,
            ..consume
        });
        let again = again.consumers.expect("consumed");
        assert_eq!(again.messages, 500);
        assert_eq!(again.empty_polls, 2);
    }
}

#[test]
fn an_empty_partition_is_no_endless_loop() {
    let server = MemoryServer::start(Fault::None);
    let empty = run(
        BenchConfig {
            mode: Mode::Consume,
            ..config(server.address)
        },
        &Progress::default(),
    );
    assert!(
        matches!(
            empty,
            Err(ClientError::InvalidSetting {
                setting: "topic",
                ..
            })
        ),
        "{empty:?}"
    );
}

#[test]
fn verification_finds_damage_and_gaps() {
    for (fault, reason) in [
        (Fault::FlipPayloadAt(13), "checksum"),
        (Fault::SkipOffset(13), "another offset"),
    ] {
        let server = MemoryServer::start(fault);
        measure(config(server.address));
        let damaged = run(
            BenchConfig {
                mode: Mode::Consume,
                verify: true,
                ..config(server.address)
            },
            &Progress::default(),
        );
        match damaged {
            Err(ClientError::Damaged {
                offset,
                reason: found,
                ..
            }) => {
                assert_eq!(offset.0, 13);
                assert!(found.contains(reason), "{found}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// One failing actor ends the run at once, whatever the others still have to do.
#[test]
fn a_refusal_ends_the_run_with_its_status() {
    let server = MemoryServer::start(Fault::RefuseAfter(15));
    let refused = run(
        BenchConfig {
            mode: Mode::Both,
            producers: 2,
            consumers: 2,
            amount: Amount::Seconds(60.0),
            window: 3,
            ..config(server.address)
        },
        &Progress::default(),
    );
    let status = refused.as_ref().err().and_then(ClientError::status);
    assert_eq!(status, Some(Status::TOPIC_ID_NOT_FOUND), "{refused:?}");
}

#[test]
fn time_and_rate_limit_what_is_sent() {
    let report = measure(BenchConfig {
        producers: 2,
        amount: Amount::Seconds(0.5),
        rate_limit_bytes_per_second: Some(100_000),
        ..config(null_listener())
    });
    let producers = report.producers.expect("produced");
    // 100 batches of 1000 bytes per second: 50 in all. A busy machine may be late, never early.
    assert!(
        (10..=52).contains(&producers.requests),
        "{}",
        producers.requests
    );
    assert!(producers.wall_seconds < 5.0);
}

#[test]
fn a_stop_reports_what_was_measured() {
    let progress = Arc::new(Progress::default());
    let stopper = thread::spawn({
        let progress = Arc::clone(&progress);
        move || {
            while progress.snapshot().produced_messages == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            progress.stop();
        }
    });
    let start = Instant::now();
    let report = run(
        BenchConfig {
            amount: Amount::Seconds(60.0),
            ..config(null_listener())
        },
        &progress,
    )
    .expect("a stop is no error");
    stopper.join().expect("no panic");
    assert!(report.stopped);
    assert!(report.producers.expect("produced").messages > 0);
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// A hanging server does not prevent a stop.
#[test]
fn a_stop_does_not_wait_for_a_server_that_hangs() {
    let server = MemoryServer::start(Fault::None);
    // The topic exists; a proxy that drops batches takes the server's place.
    let proxied = server.address;
    let address = crate::support::listen(move |mut client| {
        use std::io::{Read, Write};
        let mut upstream = std::net::TcpStream::connect(proxied).expect("listens");
        while let Some((code, payload)) = crate::support::read_frame(&mut client) {
            if code == headrace_wire::CommandCode::SendMessages.code() {
                continue;
            }
            let header =
                headrace_wire::frame::RequestHeader::new(code, payload.len()).expect("small");
            upstream.write_all(&header.encode()).expect("connected");
            upstream.write_all(&payload).expect("connected");
            let mut answer = [0; 8];
            upstream.read_exact(&mut answer).expect("answered");
            let length = headrace_wire::frame::ResponseHeader::parse(&answer).length;
            let mut payload = vec![0; length as usize];
            upstream.read_exact(&mut payload).expect("answered");
            client.write_all(&answer).expect("connected");
            client.write_all(&payload).expect("connected");
        }
    });
    let progress = Arc::new(Progress::default());
    let stopper = thread::spawn({
        let progress = Arc::clone(&progress);
        move || {
            while progress.snapshot().phase != Phase::Measuring {
                thread::sleep(Duration::from_millis(1));
            }
            progress.stop();
        }
    });
    let start = Instant::now();
    let report = run(config(address), &progress).expect("a stop is no error");
    stopper.join().expect("no panic");
    assert!(report.stopped);
    assert_eq!(report.producers.expect("tried").requests, 0);
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn settings_and_servers_that_do_not_fit_are_refused_at_once() {
    let refused = |change: fn(&mut BenchConfig)| {
        let mut config = config(null_listener());
        change(&mut config);
        run(config, &Progress::default()).expect_err("refused")
    };
    assert!(matches!(
        refused(|c| c.window = 0),
        ClientError::InvalidSetting {
            setting: "window",
            ..
        }
    ));
    assert!(matches!(
        refused(|c| c.server_pids = vec![std::process::id(), u32::MAX]),
        ClientError::System { .. }
    ));
    let missing = run(
        BenchConfig {
            setup: Setup::Existing,
            ..config(MemoryServer::start(Fault::None).address)
        },
        &Progress::default(),
    );
    assert!(
        matches!(missing, Err(ClientError::NotFound { .. })),
        "{missing:?}"
    );
}
