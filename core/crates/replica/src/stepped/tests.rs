//! A replica whose peers are the test itself.

use std::{
    io::{ErrorKind, Read, Write},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use headrace_buffer::Slice;
use headrace_vsr::{
    frame::{
        Frame, METADATA_GROUP, Origin,
        area::{StartViewChange, VoteReason},
    },
    neighbours::Reading,
    trust::PeerMemory,
};

use super::*;
use crate::{
    Replica, ReplicaConfig,
    handshake::{Handshake, Identity, Keys, NONCE_BYTES, Progress},
    opening::system_environment,
    surroundings::{Environment, Machine, Network},
};

const REPLICA: u8 = 1;
const SECRET: &str = "the secret of the tested metadata group";

/// Bytes to and from the replica on one connection.
#[derive(Clone, Debug, Default)]
struct Wire(Arc<Mutex<(Vec<u8>, Vec<u8>)>>);

impl Wire {
    fn with<T>(&self, act: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>) -> T) -> T {
        let mut both = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (to, from) = &mut *both;
        act(to, from)
    }

    fn send(&self, bytes: &[u8]) {
        self.with(|to, _| to.extend_from_slice(bytes));
    }

    fn answers(&self) -> Vec<u8> {
        self.with(|_, from| std::mem::take(from))
    }
}

impl Connection for Wire {}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.with(|to, _| {
            if to.is_empty() {
                return Err(ErrorKind::WouldBlock.into());
            }
            let count = to.len().min(into.len());
            into[..count].copy_from_slice(&to[..count]);
            to.drain(..count);
            Ok(count)
        })
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|_, from| from.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Network and machine of the replica.
#[derive(Debug, Default)]
struct World {
    waiting: Mutex<Vec<Wire>>,
    drawn: AtomicU64,
}

impl Network for World {
    fn accept(&self) -> io::Result<Box<dyn Connection>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.pop() {
            Some(wire) => Ok(Box::new(wire)),
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn dial(&self, _: u8) {}
}

impl Machine for World {
    fn clock(&self) -> Reading {
        Reading {
            monotonic_ns: 1,
            wall_ns: 1,
        }
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        let drawn = self.drawn.fetch_add(1, Relaxed);
        bytes.fill(drawn.to_le_bytes()[0]);
        Ok(())
    }
}

struct Tested {
    world: Arc<World>,
    config: ReplicaConfig,
    replica: SteppedReplica,
    /// Dropping it stops the replica.
    _handle: Replica,
    _kept: tempfile::TempDir,
}

impl Tested {
    /// Start a replica in a new data directory.
    fn start() -> Self {
        let kept = tempfile::tempdir().unwrap();
        let config: ReplicaConfig = serde_json::from_value(serde_json::json!({
            "directory": kept.path(), "cluster": "tested", "replica": REPLICA, "secret": SECRET,
            "replicas": ["zero:1", "one:1", "two:1"],
        }))
        .unwrap();
        let world = Arc::new(World::default());
        let environment = Environment {
            machine: Arc::clone(&world) as _,
            network: Some(Arc::clone(&world) as _),
            ..system_environment()
        };
        let handle = Replica::new(config.clone()).unwrap();
        let replica = handle.start_single_stepped(&environment).unwrap();
        let mut tested = Self {
            world,
            config,
            replica,
            _handle: handle,
            _kept: kept,
        };
        while !tested.replica.has_begun() {
            tested.turn();
        }
        tested
    }

    fn turn(&mut self) {
        assert!(self.replica.process());
        while self.replica.writer_has_jobs() {
            self.replica.write();
            assert!(self.replica.process());
        }
    }

    fn identity(&self, peer: u8, process: u64) -> Identity {
        let claim = MemberClaim {
            is_proven: true,
            incarnation: process,
            process,
            ..MemberClaim::default()
        };
        Identity {
            claim,
            cluster: self.config.cluster_id(),
            cluster_name: self.config.cluster.clone(),
            replica: peer,
            replicas: 3,
            given_up: Vec::new(),
            release: self.config.release().unwrap(),
            in_force: self.config.release().unwrap(),
            memory: PeerMemory::default(),
            keys: Keys::derive(SECRET, "", &self.config.cluster),
        }
    }

    /// Dial as process number `process` of a peer, up to the proof that the replica has not received yet.
    fn dial(&mut self, peer: u8, process: u64) -> (Wire, Handshake, Vec<u8>) {
        let us = self.identity(peer, process);
        let wire = Wire::default();
        let mut out = Vec::new();
        let mut handshake = Handshake::dial(&us, REPLICA, [9; NONCE_BYTES], &mut out);
        wire.send(&out);
        self.world.waiting.lock().unwrap().push(wire.clone());
        self.turn();
        self.turn();
        let mut proof = Vec::new();
        let progress = handshake.advance(&us, &mut wire.answers(), &mut proof);
        assert_eq!(progress, Progress::Wait);
        (wire, handshake, proof)
    }

    /// Claim with which the replica welcomes the peer.
    fn welcome(&self, peer: u8, wire: &Wire, handshake: &mut Handshake) -> MemberClaim {
        let us = self.identity(peer, 0);
        match handshake.advance(&us, &mut wire.answers(), &mut Vec::new()) {
            Progress::Done { claim, .. } => claim,
            other => panic!("{other:?}"),
        }
    }

    fn connect(&mut self, peer: u8, process: u64) -> Wire {
        let (wire, mut handshake, proof) = self.dial(peer, process);
        wire.send(&proof);
        self.turn();
        self.welcome(peer, &wire, &mut handshake);
        wire
    }

    /// Announcement of a view by replica 2, upon which the replica enters it.
    fn announcement(&self, view: u32) -> Vec<u8> {
        let origin = Origin {
            cluster: self.config.cluster_id(),
            group: METADATA_GROUP,
            view,
            replica: 2,
            release: self.config.release().unwrap(),
            ..Origin::default()
        };
        let area = StartViewChange {
            sender_view: view,
            log_view: 0,
            op: 0,
            commit_max: 0,
            reason: VoteReason::Announcement,
        };
        Frame::seal(origin, area, Slice::default()).any().encode()
    }
}

/// A peer may have lost its disk and come back with an empty one. It takes the claim in the welcome for that of a replica
/// to which its former process can say nothing more.
#[test]
fn ctl_5_a_former_process_is_not_heard_after_its_successor_was_welcomed() {
    let mut tested = Tested::start();
    tested.connect(0, 1);
    let former = tested.connect(2, 1);
    assert!(tested.replica.is_proven(), "the group is new");
    let view = tested.replica.report().view;

    let (wire, mut handshake, proof) = tested.dial(2, 2);
    former.send(&tested.announcement(view + 1));
    wire.send(&proof);
    tested.turn();
    let claim = tested.welcome(2, &wire, &mut handshake);
    assert_eq!(claim.view, view);
    assert_eq!(tested.replica.report().view, view);

    // From the new process it counts.
    wire.send(&tested.announcement(view + 1));
    tested.turn();
    assert_eq!(tested.replica.report().view, view + 1);
}
