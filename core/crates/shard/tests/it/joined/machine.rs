//! Model of the metadata service as far as transactions need it: commands run one by one, each at a time of its own.

use std::collections::{BTreeMap, BTreeSet};

use headrace_model::StageId;
use headrace_proto::{
    catalog::v1::{self as records, delta::Change},
    control::v1::{self as control, reply::Body, request::Operation},
    metadata::v1::{
        CommitTransaction, PublicationsApplied, StagesOfPartition, Transaction, TransactionOutcome,
        TransactionResult, command::Operation as Proposed,
    },
};
use headrace_wire::Status;

/// Incarnation of every partition.
pub const INCARNATION: u64 = 3;

/// Staged batches committed to one partition by one transaction.
pub struct Publication {
    pub number: u64,
    pub partition: u32,
    pub stages: Vec<u128>,
}

#[derive(Default)]
pub struct Machine {
    /// Time of the last command; strictly increasing.
    pub time: u64,
    /// Catalog version that resulted from a command, and the time of the command.
    times: Vec<(u64, u64)>,
    batch: Option<u64>,
    aborted: BTreeSet<u128>,
    pub pending: BTreeMap<u32, BTreeMap<u64, Vec<u128>>>,
    /// All publications in the order of their numbers.
    pub committed: Vec<Publication>,
    /// Time of the last purge: what was committed before may be gone.
    pub purged: u64,
}

impl Machine {
    /// Return the time of the newest command whose effects a catalog of this version includes completely.
    pub fn horizon(&self, version: u64) -> u64 {
        let known = self.times.iter().take_while(|(at, _)| *at <= version);
        known.map(|(_, time)| *time).last().unwrap_or(0)
    }

    /// Record that a command has taken effect and led to this version.
    pub fn applied(&mut self, version: u64) {
        self.times.push((version, self.time));
    }

    /// Advance the time to that of a new command.
    pub fn command(&mut self, now: u64) {
        self.time = now.max(self.time + 1);
    }

    /// Execute a request of a gateway.
    pub fn ask(&mut self, request: &control::Request) -> (control::Reply, Vec<Change>) {
        let Some(Operation::Command(command)) = &request.operation else {
            panic!("{request:?}");
        };
        match command.operation.as_ref().expect("a command") {
            Proposed::CommitTransaction(commit) => match self.commit(commit) {
                Ok((outcome, changes)) => (result(outcome), changes),
                Err(status) => (refused(status), Vec::new()),
            },
            Proposed::AbortTransaction(abort) if self.is_committed(abort.batch_id) => {
                (result(TransactionOutcome::AlreadyCommitted), Vec::new())
            }
            Proposed::AbortTransaction(abort) => {
                let changes = abort.stages.iter().map(|stages| {
                    self.aborted.extend(ids(stages));
                    Change::AbortedStagesPut(records::AbortedStages {
                        partition_id: stages.partition_id,
                        partition_incarnation: stages.partition_incarnation,
                        number: self.time,
                        stage_ids: stages.stage_ids.clone(),
                        ..Default::default()
                    })
                });
                let changes = changes.collect();
                (result(TransactionOutcome::Aborted), changes)
            }
            other => panic!("{other:?}"),
        }
    }

    fn is_committed(&self, batch: u64) -> bool {
        self.batch.is_some_and(|last| batch <= last)
    }

    fn commit(
        &mut self,
        commit: &CommitTransaction,
    ) -> Result<(TransactionOutcome, Vec<Change>), Status> {
        if self.is_committed(commit.batch_id) {
            return Ok((TransactionOutcome::AlreadyCommitted, Vec::new()));
        }
        let mut by_partition: BTreeMap<u32, Vec<u128>> = BTreeMap::new();
        for stages in &commit.stages {
            for id in ids(stages) {
                if StageId(id).expires_at().0 <= self.time {
                    return Err(Status::STAGE_EXPIRED);
                }
                if self.aborted.contains(&id) {
                    return Err(Status::STAGE_ABORTED);
                }
                by_partition
                    .entry(stages.partition_id)
                    .or_default()
                    .push(id);
            }
        }
        self.batch = Some(commit.batch_id);
        let number = self.time;
        let mut changes = Vec::new();
        for (partition, stages) in by_partition {
            let of_partition = self.pending.entry(partition).or_default();
            of_partition.insert(number, stages.clone());
            changes.push(Change::PublicationPut(records::PendingPublication {
                partition_id: partition,
                partition_incarnation: INCARNATION,
                number,
                stage_ids: (stages.iter())
                    .map(|id| StageId(*id).to_bytes().to_vec())
                    .collect(),
                ..Default::default()
            }));
            self.committed.push(Publication {
                number,
                partition,
                stages,
            });
        }
        Ok((TransactionOutcome::Committed, changes))
    }

    /// Process a notice of a node.
    pub fn hear(&mut self, request: &control::Request) -> Vec<Change> {
        let Some(Operation::PublicationsApplied(PublicationsApplied { partitions })) =
            &request.operation
        else {
            panic!("{request:?}");
        };
        let mut changes = Vec::new();
        for done in partitions {
            assert_eq!(done.partition_incarnation, INCARNATION);
            let pending = self.pending.entry(done.partition_id).or_default();
            let before = pending.len();
            pending.retain(|number, _| *number > done.number);
            if pending.len() < before {
                changes.push(Change::PublicationsDeleted(records::PublicationKey {
                    partition_id: done.partition_id,
                    number: done.number,
                    ..Default::default()
                }));
            }
        }
        changes
    }
}

fn ids(stages: &StagesOfPartition) -> impl Iterator<Item = u128> {
    let ids = stages.stage_ids.iter();
    ids.map(|id| StageId::from_bytes(id).expect("16 bytes").0)
}

fn result(outcome: TransactionOutcome) -> control::Reply {
    let result = TransactionResult {
        outcome: outcome.into(),
        transaction: Some(Transaction {
            number: 1,
            ..Default::default()
        }),
    };
    control::Reply {
        status: 0,
        body: Some(Body::TransactionResult(result)),
        credential: None,
    }
}

fn refused(status: Status) -> control::Reply {
    control::Reply {
        status: status.0,
        body: None,
        credential: None,
    }
}
