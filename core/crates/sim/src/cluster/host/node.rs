//! Data directory of a node, and the process that currently runs on it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headrace_replica::stepped::SteppedReplica;
use headrace_replica::surroundings::{self, Environment};
use headrace_replica::{Replica, ReplicaConfig, StartError, TimeoutProfile};
use headrace_vsr::api::Report;
use headrace_vsr::frame::Release;
use headrace_vsr::frame::area::Request;
use headrace_vsr::neighbours::Reading;
use headrace_vsr::trust::MemberClaim;

use super::Host;
use super::directory::{DataDirectory, DirectoryHandle};
use super::wire::{Shared, Socket};
use crate::cluster::group::ReplicaStorage;
use crate::cluster::{self, MARKER, Node, SUPERBLOCK, Storage, empty};
use crate::disk::{DamagedBytes, Disk};
use crate::machine::{Machine, NEWER};
use crate::mutants::HostFault;
use crate::options::Options;
use crate::plan::Loss;
use crate::random::{Domain, Fates};

/// Minimum size that the settings allow, so that even short runs use several files.
const JOURNAL_FILE_BYTES: u64 = 1024 * 1024;

/// Planned crash in the middle of the work of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedCrash {
    pub(super) power: Option<Loss>,
    pub(super) down_ns: u64,
    /// Number of connections that still receive the bytes written to them; `None`: the crash is during a file
    /// operation.
    pub(super) sent: Option<u8>,
}

/// Damage to a journal record: its position, and the damaged bytes.
#[derive(Clone, Debug)]
pub(super) struct RecordDamage {
    pub(super) op: u64,
    pub(super) file: u64,
    pub(super) offset: u64,
    pub(super) scar: DamagedBytes,
}

/// Data directory of a node, and what is expected of it.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about a data directory"
)]
pub(crate) struct HostDirectory {
    pub(super) directory: Arc<DataDirectory>,
    pub(super) clocks: Arc<Clocks>,
    pub(super) death: Option<PlannedCrash>,
    pub(super) injuries: Vec<RecordDamage>,
    pub(super) superblock_scars: Vec<DamagedBytes>,
    /// True if the process has reported that its disk is full.
    pub(super) has_reported_full: bool,
    /// Number of writes that failed for lack of space before this process.
    pub(super) without_space_before: u64,
    pub(super) has_damaged_superblock: bool,
    pub(super) has_damaged_checkpoint: bool,
    pub(super) has_damaged_records: bool,
    /// True if a whole file was truncated, lost or swapped.
    pub(super) has_lost_files: bool,
    /// Members that the operator has declared lost in the settings of this node.
    pub(super) given_up: Vec<u8>,
}

/// Process of a replica.
#[derive(Debug)]
pub(crate) struct Process {
    pub(super) incarnation: u64,
    pub(super) replica: Replica,
    pub(super) stepped: SteppedReplica,
    pub(super) machine: Machine,
    /// Operation executed last.
    pub(super) executed: u64,
    pub(super) waiting: BTreeMap<u64, Waiting>,
    /// Time of the next wake-up of the replica.
    pub(super) wake_ns: Option<u64>,
    pub(super) writes: bool,
    pub(super) works_on_files: bool,
    pub(super) wrote_ns: u64,
}

impl cluster::Process for Process {
    fn incarnation(&self) -> u64 {
        self.incarnation
    }
}

impl cluster::group::ReplicaProcess for Process {
    fn report(&self) -> Report {
        self.stepped.report()
    }

    fn has_begun(&self) -> bool {
        self.stepped.has_begun()
    }

    fn is_proven(&self) -> bool {
        self.stepped.is_proven()
    }

    fn remembers_newer_state(&self, peer: u8, standing: MemberClaim) -> bool {
        self.stepped.remembers_newer_state(peer, standing)
    }

    fn executed(&self) -> Option<u64> {
        None
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// Client that waits for the result of a request.
#[derive(Clone, Debug)]
pub(super) enum Waiting {
    Session {
        from: u8,
        request: Request,
        checksum: u128,
    },
    Proposal {
        from: u8,
        call: usize,
    },
    Read {
        from: u8,
        call: usize,
        key: u8,
    },
}

impl HostDirectory {
    pub(super) fn new(
        fates: Fates,
        options: &Options,
        replica: u8,
        misdeed: Option<HostFault>,
    ) -> Self {
        Self {
            directory: Arc::new(DataDirectory::new(empty(options), misdeed)),
            clocks: Arc::new(Clocks::new(fates, replica)),
            death: None,
            injuries: Vec::new(),
            superblock_scars: Vec::new(),
            has_reported_full: false,
            without_space_before: 0,
            has_damaged_superblock: false,
            has_damaged_checkpoint: false,
            has_damaged_records: false,
            has_lost_files: false,
            given_up: Vec::new(),
        }
    }
}

impl Storage for HostDirectory {
    fn misread(&mut self) {
        self.directory.misread();
    }

    fn spare(&mut self) {
        self.death = None;
        self.directory.spare();
    }
}

impl ReplicaStorage for HostDirectory {
    fn copied(&self) -> Disk {
        self.directory.with_disk(|disk| disk.clone())
    }

    fn replace(&mut self, disk: Disk, _is_empty: bool) {
        self.directory.with_disk(|old| *old = disk);
        self.injuries.clear();
        self.superblock_scars.clear();
        self.has_damaged_superblock = false;
        self.has_damaged_checkpoint = false;
        self.has_damaged_records = false;
        self.has_lost_files = false;
    }

    fn has_met_all(&self) -> bool {
        self.directory
            .with_disk(|disk| disk.read(SUPERBLOCK).is_some() && disk.read(MARKER).is_none())
    }
}

impl Node<Host> {
    /// Start a process on the data directory.
    pub(super) fn open(
        &self,
        options: &Options,
        replica: u8,
        wires: &Shared,
    ) -> Result<(Replica, SteppedReplica), StartError> {
        let handle = Replica::new(ReplicaConfig {
            given_up: self.storage.given_up.clone(),
            ..config_of(options, replica, self.release)
        })?;
        let stepped = handle.start_single_stepped(&Environment {
            files: Arc::new(DirectoryHandle::new(&self.storage.directory)),
            machine: Arc::clone(&self.storage.clocks) as Arc<dyn surroundings::Machine>,
            network: Some(Arc::new(Socket {
                wires: wires.clone(),
                node: replica,
            })),
        })?;
        Ok((handle, stepped))
    }
}

/// Id of the cluster.
pub(super) fn cluster_id(options: &Options) -> u128 {
    config_of(options, 0, NEWER).cluster_id()
}

/// Configuration of a replica.
pub(super) fn config_of(options: &Options, replica: u8, release: Release) -> ReplicaConfig {
    ReplicaConfig {
        directory: PathBuf::from("/replica"),
        cluster: "simulated".to_owned(),
        replica,
        replicas: (0..options.replicas)
            .map(|member| format!("replica-{member}:1"))
            .collect(),
        listen: None,
        secret: "the secret of the simulated group".to_owned(),
        accepted_secret: String::new(),
        tls: None,
        timeouts: if options.slow_timeouts {
            TimeoutProfile::Seed
        } else {
            TimeoutProfile::Default
        },
        sync: true,
        checkpoint_ops: options.checkpoint_ops,
        checkpoint_bytes: 1 << 20,
        log_keep_ops: options.checkpoint_ops / 2,
        journal_file_bytes: JOURNAL_FILE_BYTES,
        given_up: Vec::new(),
        release: Some(release.to_string()),
    }
}

/// Clock readings and randomness of a process.
#[derive(Debug)]
pub(super) struct Clocks {
    fates: Fates,
    replica: u8,
    state: Mutex<(Reading, u64)>,
}

impl Clocks {
    fn new(fates: Fates, replica: u8) -> Self {
        Self {
            fates,
            replica,
            state: Mutex::new((Reading::default(), 0)),
        }
    }

    fn state(&self) -> MutexGuard<'_, (Reading, u64)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Set the current clock readings.
    pub(super) fn set(&self, now: Reading) {
        self.state().0 = now;
    }
}

impl surroundings::Machine for Clocks {
    fn clock(&self) -> Reading {
        self.state().0
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        let mut state = self.state();
        state.1 += 1;
        let mut draw = self
            .fates
            .draw(Domain::Core, self.replica.into(), 1, state.1);
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&draw.word().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}
