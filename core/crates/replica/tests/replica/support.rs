//! Replicas with a small state machine each, in one process, on real files and real sockets.

use std::{
    collections::BTreeMap,
    net::TcpListener,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use headrace_buffer::Slice;
use headrace_replica::{
    Refusal, Release, Replica, ReplicaConfig, ReplicaEvent, ReplicaStatus, SessionRequest,
    StartError, TimeoutProfile, TlsConfig,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use twox_hash::XxHash3_128;

pub const TIMEOUT: Duration = Duration::from_secs(30);
pub const SECRET: &str = "a secret of the tests, of 32 bytes or more";

/// State of the test state machine: number of applied commands, a hash of them in order, and the source of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Machine {
    pub commands: u64,
    pub hash: u128,
    pub timestamp_ns: u64,
}

impl Machine {
    fn apply(&mut self, timestamp_ns: u64, command: &[u8]) -> u64 {
        assert!(timestamp_ns >= self.timestamp_ns, "time goes on");
        self.timestamp_ns = timestamp_ns;
        self.commands += 1;
        let mut bytes = self.hash.to_le_bytes().to_vec();
        bytes.extend_from_slice(command);
        self.hash = XxHash3_128::oneshot(&bytes);
        self.commands
    }

    fn state(self) -> Vec<u8> {
        let mut state = self.commands.to_le_bytes().to_vec();
        state.extend_from_slice(&self.hash.to_le_bytes());
        state.extend_from_slice(&self.timestamp_ns.to_le_bytes());
        // Large enough to need more than one message.
        state.resize(3 * 1024 * 1024, 7);
        state
    }

    fn restore(state: &[u8]) -> Self {
        Self {
            commands: u64::from_le_bytes(state[..8].try_into().unwrap()),
            hash: u128::from_le_bytes(state[8..24].try_into().unwrap()),
            timestamp_ns: u64::from_le_bytes(state[24..32].try_into().unwrap()),
        }
    }
}

#[derive(Debug, Default)]
pub struct Seen {
    pub machine: Machine,
    pub ended: BTreeMap<u64, Result<u64, Refusal>>,
    pub log: Vec<String>,
    pub stopped: Option<String>,
    pub restores: u64,
}

/// Replica with its state machine.
pub struct Node {
    pub replica: Arc<Replica>,
    seen: Arc<(Mutex<Seen>, Condvar)>,
    ending: Arc<AtomicBool>,
    driver: Option<JoinHandle<()>>,
}

impl Node {
    pub fn start(config: ReplicaConfig) -> Result<Self, StartError> {
        let replica = Arc::new(Replica::new(config)?);
        replica.start()?;
        let seen = Arc::new((Mutex::new(Seen::default()), Condvar::new()));
        let ending = Arc::new(AtomicBool::new(false));
        let driver = {
            let (replica, seen, ending) = (replica.clone(), seen.clone(), ending.clone());
            thread::spawn(move || {
                while !ending.load(Ordering::Relaxed) {
                    drive(&replica, &seen);
                }
            })
        };
        Ok(Self {
            replica,
            seen,
            ending,
            driver: Some(driver),
        })
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.0.lock().unwrap()
    }

    pub fn status(&self) -> ReplicaStatus {
        self.replica.status()
    }

    pub fn is_primary(&self) -> bool {
        self.status().role == "primary"
    }

    /// Wait until a condition holds.
    #[track_caller]
    pub fn wait_for(&self, what: &str, mut holds: impl FnMut(&Seen) -> bool) {
        let until = Instant::now() + TIMEOUT;
        let mut seen = self.seen();
        while !holds(&seen) {
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "{what} never came: {seen:?} {:?}",
                self.status()
            );
            // Check again periodically: the condition may depend on the status as well.
            let step = left.min(Duration::from_millis(20));
            seen = self.seen.1.wait_timeout(seen, step).unwrap().0;
        }
    }

    /// Outcomes of the proposals, in their order.
    #[track_caller]
    pub fn propose(&self, commands: &[Vec<u8>]) -> Vec<Result<u64, Refusal>> {
        self.propose_since(Release::FIRST, commands)
    }

    /// Outcomes of proposals whose commands exist since a given release.
    #[track_caller]
    pub fn propose_since(&self, since: Release, commands: &[Vec<u8>]) -> Vec<Result<u64, Refusal>> {
        let slices = commands.iter().cloned().map(Slice::from_vec);
        let first = self
            .replica
            .propose(slices.map(|slice| (since, slice)).collect())
            .unwrap();
        let tickets: Vec<u64> = (first..).take(commands.len()).collect();
        self.wait_for("an answer", |seen| {
            tickets.iter().all(|ticket| seen.ended.contains_key(ticket))
        });
        let mut seen = self.seen();
        tickets
            .iter()
            .map(|ticket| seen.ended.remove(ticket).unwrap())
            .collect()
    }

    #[track_caller]
    pub fn request(&self, request: SessionRequest) -> Result<u64, Refusal> {
        let ticket = self.replica.request(vec![request]).unwrap();
        self.wait_for("an answer", |seen| seen.ended.contains_key(&ticket));
        self.seen().ended.remove(&ticket).unwrap()
    }

    #[track_caller]
    pub fn read(&self) -> Result<u64, Refusal> {
        let ticket = self.replica.read_index().unwrap();
        self.wait_for("a read", |seen| seen.ended.contains_key(&ticket));
        self.seen().ended.remove(&ticket).unwrap()
    }

    /// Stop abruptly, without notice to the peers.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        assert!(self.replica.stop(TIMEOUT));
        self.ending.store(true, Ordering::Relaxed);
        if let Some(driver) = self.driver.take() {
            let _ = driver.join();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.driver.is_some() && !thread::panicking() {
            self.end();
        }
        self.ending.store(true, Ordering::Relaxed);
    }
}

fn drive(replica: &Replica, seen: &(Mutex<Seen>, Condvar)) {
    let mut descriptors = [PollFd::new(replica, PollFlags::IN)];
    let step = Timespec::try_from(Duration::from_millis(20)).unwrap();
    poll(&mut descriptors, Some(&step)).unwrap();
    let events = replica.take_events();
    if events.is_empty() {
        return;
    }
    let mut seen_now = seen.0.lock().unwrap();
    for event in events {
        take(replica, &mut seen_now, event);
    }
    seen.1.notify_all();
}

fn take(replica: &Replica, seen: &mut Seen, event: ReplicaEvent) {
    match event {
        ReplicaEvent::Restore { op, state } => {
            seen.machine = Machine::restore(&state);
            seen.restores += 1;
            replica.restored(op);
        }
        ReplicaEvent::Apply {
            op,
            timestamp_ns,
            commands,
        } => {
            let mut replies = Vec::new();
            for (ticket, command) in commands {
                let reply = seen.machine.apply(timestamp_ns, &command);
                if ticket != 0 {
                    assert_eq!(seen.ended.insert(ticket, Ok(reply)), None, "answered once");
                }
                replies.push(Slice::from_vec(reply.to_le_bytes().to_vec()));
            }
            replica.applied(op, replies);
        }
        ReplicaEvent::Checkpoint { op } => {
            replica.checkpoint(op, Slice::from_vec(seen.machine.state()));
        }
        ReplicaEvent::RequestCompleted {
            request_id: ticket,
            session,
            reply,
        } => {
            // The answer to an opening is only its session.
            let answer = reply
                .first_chunk::<8>()
                .map_or(session, |reply| u64::from_le_bytes(*reply));
            assert_eq!(seen.ended.insert(ticket, Ok(answer)), None, "answered once");
        }
        ReplicaEvent::Refused { ticket, refusal } => {
            assert_eq!(
                seen.ended.insert(ticket, Err(refusal)),
                None,
                "answered once"
            );
        }
        ReplicaEvent::Read { ticket, op } => {
            assert_eq!(seen.ended.insert(ticket, Ok(op)), None, "answered once");
        }
        ReplicaEvent::Role {
            role,
            view,
            primary,
        } => {
            seen.log
                .push(format!("{} in view {view} of {primary:?}", role.name()));
        }
        ReplicaEvent::Log { message, .. } => seen.log.push(message),
        ReplicaEvent::Stopped { reason } => seen.stopped = Some(reason),
    }
}

/// Data directories and addresses of a group.
pub struct Group {
    pub directory: tempfile::TempDir,
    pub configs: Vec<ReplicaConfig>,
}

impl Group {
    pub fn new(replicas: u8) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // All are held at the same time, so that no two ports are equal.
        let listeners: Vec<TcpListener> = (0..replicas)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let addresses: Vec<String> = listeners
            .iter()
            .map(|listener| listener.local_addr().unwrap().to_string())
            .collect();
        let configs = (0..replicas)
            .map(|replica| ReplicaConfig {
                directory: directory.path().join(replica.to_string()),
                cluster: "tests".to_owned(),
                replica,
                replicas: addresses.clone(),
                listen: None,
                secret: SECRET.to_owned(),
                accepted_secret: String::new(),
                tls: None::<TlsConfig>,
                timeouts: TimeoutProfile::Default,
                sync: true,
                checkpoint_ops: 1024,
                checkpoint_bytes: 16 * 1024 * 1024,
                log_keep_ops: 1024,
                journal_file_bytes: 4 * 1024 * 1024,
                release: None,
                given_up: Vec::new(),
            })
            .collect();
        Self { directory, configs }
    }

    pub fn directory_of(&self, replica: usize) -> PathBuf {
        self.configs[replica].directory.clone()
    }

    pub fn start(&self, replica: usize) -> Node {
        Node::start(self.configs[replica].clone()).unwrap()
    }

    pub fn start_all(&self) -> Vec<Node> {
        (0..self.configs.len())
            .map(|replica| self.start(replica))
            .collect()
    }
}

/// Wait for a primary and return it.
#[track_caller]
pub fn primary_of(nodes: &[Node]) -> usize {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(primary) = nodes.iter().position(Node::is_primary) {
            return primary;
        }
        assert!(
            Instant::now() < until,
            "no primary: {:?}",
            nodes
                .iter()
                .map(|node| (node.status(), node.seen().log.clone()))
                .collect::<Vec<_>>()
        );
        thread::sleep(Duration::from_millis(5));
    }
}

/// Propose to the current primary until the command is accepted; a command may be applied more than once.
#[track_caller]
pub fn propose_anywhere(nodes: &[Node], command: &[u8]) -> usize {
    let until = Instant::now() + TIMEOUT;
    loop {
        let primary = primary_of(nodes);
        let Err(refusal) = nodes[primary].propose(&[command.to_vec()])[0] else {
            return primary;
        };
        assert!(Instant::now() < until, "{refusal:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Wait until all replicas have the same state.
#[track_caller]
pub fn converge(nodes: &[Node]) -> Machine {
    let until = Instant::now() + TIMEOUT;
    loop {
        let machines: Vec<Machine> = nodes.iter().map(|node| node.seen().machine).collect();
        if machines.iter().all(|machine| *machine == machines[0]) {
            return machines[0];
        }
        assert!(
            Instant::now() < until,
            "{machines:?} {:#?}",
            nodes
                .iter()
                .map(|node| (node.status(), node.seen().log.clone()))
                .collect::<Vec<_>>()
        );
        thread::sleep(Duration::from_millis(5));
    }
}

pub fn numbered(range: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    range
        .map(|number| format!("command {number}").into_bytes())
        .collect()
}
