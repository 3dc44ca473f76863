//! Gateways and partition nodes in full: shard threads, sockets and files.
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, reason = "what is missing fails the test")]
#![allow(
    clippy::disallowed_methods,
    reason = "it waits for what happens, and not for ever"
)]

mod cluster;
mod proxy;
mod session;

use std::time::{Duration, Instant};

use headrace_wire::{
    Command, Identifier, Status, WatchAction,
    command::{StreamPath, WatchPartitions, WatchedTopic},
};

use crate::links::cluster::{Cluster, TIMEOUT};

/// Define one test per driver for each function.
macro_rules! on_both_drivers {
    ($($name:ident),+ $(,)?) => {
        mod uring {
            $(#[test] fn $name() { crate::links::$name("uring"); })+
        }
        mod poll {
            $(#[test] fn $name() { crate::links::$name("poll"); })+
        }
    };
}

on_both_drivers!(
    clients_reach_every_partition_of_every_node,
    a_restart_of_a_node_disconnects_no_client,
    a_broken_link_ends_those_whose_batches_were_under_way,
    requests_to_an_absent_node_are_refused_in_time,
);

/// GW-2, GW-7, GW-8: partitions of all nodes are reachable through a gateway as if they were local.
fn clients_reach_every_partition_of_every_node(driver: &str) {
    let cluster = Cluster::start(driver, 8);
    let mut session = cluster.session();
    let large = vec![7; 1 << 20];
    for id in 0..8 {
        assert_eq!(session.send(id, &[b"first"]), Some(Status::OK));
        assert_eq!(session.send(id, &[&large]), Some(Status::OK));
        assert_eq!(session.poll(id), [b"first".to_vec(), large.clone()]);
    }
    let directories = |node: usize| cluster.directories(node);
    assert_eq!((directories(0), directories(1)), (4, 4));
    // Statistics come from both nodes.
    let stream = Command::GetStream(StreamPath {
        stream: Identifier::Numeric(0),
    });
    let payload = session.ask(&stream).unwrap().payload;
    let count = u64::from_le_bytes(payload[24..32].try_into().unwrap());
    assert_eq!(count, 16);
    // One client waits, and one watches.
    let mut watcher = cluster.session();
    let watch = Command::WatchPartitions(WatchPartitions {
        action: WatchAction::Add,
        topics: vec![WatchedTopic {
            stream: Identifier::Numeric(0),
            topic: Identifier::Numeric(0),
            partition_ids: (0..8).collect(),
        }],
    });
    assert_eq!(watcher.ask(&watch).unwrap().status, Status::OK);
    // Current states: each entry has 48 bytes, after the count of entries.
    let mut seen = 0;
    while seen < 8 {
        seen += watcher.reply().unwrap().payload.len() / 48;
    }
    let mut reader = cluster.session();
    reader.wait(5, 2);
    assert_eq!(session.send(5, &[b"third"]), Some(Status::OK));
    let reply = reader.reply().unwrap();
    assert_eq!(session::messages(&reply.payload), [b"third"]);
    assert!(!watcher.reply().unwrap().payload.is_empty());
}

/// A rolling restart: requests in flight are answered or executed later, once.
fn a_restart_of_a_node_disconnects_no_client(driver: &str) {
    let mut cluster = Cluster::start(driver, 2);
    let mut sessions: Vec<_> = (0..4).map(|_| cluster.session()).collect();
    let mut sent = 0;
    for restart in 0..3 {
        for round in 0..20_u32 {
            for (name, session) in (0..).zip(&mut sessions) {
                let text = format!("{name} {restart} {round:02}");
                session.send_only(0, &[text.as_bytes()]);
                sent += 1;
            }
        }
        let node = &mut cluster.nodes[0];
        node.stop();
        node.start();
        let clock = Instant::now();
        for session in &mut sessions {
            for _ in 0..20 {
                assert_eq!(session.reply().unwrap().status, Status::OK);
            }
        }
        assert!(clock.elapsed() < TIMEOUT);
    }
    let log = sessions[0].poll(0);
    assert_eq!(log.len(), sent);
    for name in 0..4 {
        let prefix = format!("{name} ");
        let of_one: Vec<_> = (log.iter())
            .filter(|text| text.starts_with(prefix.as_bytes()))
            .collect();
        assert!(of_one.is_sorted(), "in the order of its connection");
        assert_eq!(of_one.len(), 60);
    }
}

/// Acknowledged batches exist exactly once; clients without an answer are disconnected.
fn a_broken_link_ends_those_whose_batches_were_under_way(driver: &str) {
    let cluster = Cluster::start(driver, 2);
    let mut acknowledged = Vec::new();
    let mut reader = cluster.session();
    for round in 0..10 {
        let mut writer = cluster.session();
        let texts: Vec<String> = (0..200)
            .map(|index| format!("{round} {index:03}"))
            .collect();
        for text in &texts {
            writer.send_only(0, &[text.as_bytes()]);
        }
        // Some of the batches are answered by now.
        let mut replies = vec![writer.reply().unwrap()];
        cluster.proxies[0].cut();
        let rest = std::iter::from_fn(|| writer.reply());
        replies.extend(rest.take(texts.len() - 1));
        for (text, reply) in texts.iter().zip(&replies) {
            assert_eq!(reply.status, Status::OK);
            acknowledged.push(text.clone());
        }
        // The poll has waited for the next link.
        assert!(reader.poll(0).len() >= acknowledged.len());
    }
    let log: Vec<String> = (reader.poll(0).into_iter())
        .map(|text| String::from_utf8(text).unwrap())
        .collect();
    let mut once = log.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), log.len(), "nothing is there twice");
    let mut rest = log.iter();
    for text in &acknowledged {
        assert!(
            rest.any(|other| other == text),
            "{text} is not in its place"
        );
    }
}

fn requests_to_an_absent_node_are_refused_in_time(driver: &str) {
    let mut cluster = Cluster::start(driver, 2);
    cluster.nodes[1].stop();
    let mut session = cluster.session();
    let clock = Instant::now();
    assert_eq!(
        session.send(1, &[b"lost"]),
        Some(Status::PARTITION_UNAVAILABLE)
    );
    assert!(clock.elapsed() >= Duration::from_secs(1));
    assert_eq!(session.send(0, &[b"x"]), Some(Status::OK));
    cluster.nodes[1].start();
    // The node has been unreachable for a while, so requests that arrive now wait only briefly.
    let started = Instant::now();
    while session.send(1, &[b"found"]) != Some(Status::OK) {
        assert!(started.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(session.poll(1), [b"found"]);
    let said: Vec<String> = cluster.events();
    assert!(
        said.iter().any(|text| text.contains("is not reached")),
        "{said:?}"
    );
    assert!(
        said.iter().any(|text| text.contains("is reached again")),
        "{said:?}"
    );
}
