//! End of a run: every client is answered, and everything is read.

use std::collections::BTreeSet;

use super::client::{Client, FinalCall, Verdict};
use super::{Cluster, Data};
use crate::checker::{Check, Violation};
use crate::options::{MILLISECOND, SECOND};

/// Time in which all calls after healing must be answered.
const TIMEOUT_NS: u64 = 120 * SECOND;

impl Cluster<Data> {
    pub(super) fn heal(&mut self) {
        let now_ns = self.now_ns();
        // The delays end now, and what they have delayed is not on the device yet.
        self.note_delays(0);
        self.end_faults(&[0]);
        // A partition that cannot write any more says so until its process starts again.
        if self.nodes[0].process.is_some() {
            self.crash(0, None, MILLISECOND);
        } else {
            self.plan_start(0, MILLISECOND);
        }
        let partitions = self.group.partitions.len();
        for client in 0..self.scenario.options.workload.clients {
            let sends = (0..partitions).map(FinalCall::Send);
            let gets = (0..partitions).map(FinalCall::Get);
            self.make_final_calls(client, sends.chain(gets).collect());
        }
        self.await_clients(now_ns + TIMEOUT_NS);
        for partition in &mut self.group.partitions {
            partition.messages.begin_audit();
        }
        let audits = (0..partitions).map(|partition| FinalCall::Audit(partition, 0));
        self.make_final_calls(0, audits.collect());
        self.await_clients(now_ns + 2 * TIMEOUT_NS);
    }

    fn await_clients(&mut self, until_ns: u64) {
        while self.violation.is_none() && !self.group.clients.iter().all(Client::is_done) {
            if self.now_ns() >= until_ns {
                let waiting = self.group.clients.iter().filter(|it| !it.is_done());
                let what = format!("clients without answers: {:?}", waiting.collect::<Vec<_>>());
                return self.fail(u8::MAX, Violation::new(Check::Liveness, what));
            }
            self.run_until(self.now_ns() + SECOND / 10);
        }
    }

    /// Go on with the calls of a client after healing.
    pub(super) fn final_call_answered(&mut self, client: u8, verdict: Verdict) {
        let finals = &mut self.group.clients[usize::from(client)].finals;
        let Some(FinalCall::Audit(partition, from)) = finals.front_mut() else {
            if matches!(verdict, Verdict::Done(_)) {
                finals.pop_front();
            }
            return;
        };
        let partition = &mut self.group.partitions[*partition];
        match verdict {
            Verdict::Done(Some((u64::MAX, current))) => {
                if *from <= current && *from < partition.messages.end_max() {
                    // Damage without a message behind it.
                    *from += 1;
                } else {
                    finals.pop_front();
                }
            }
            Verdict::Done(Some((last, _))) => {
                *from = last + 1;
            }
            Verdict::Damaged if *from < partition.messages.end_max() => *from += 1,
            Verdict::Damaged | Verdict::Done(None) => {
                finals.pop_front();
            }
            Verdict::Refused => {}
        }
    }

    /// Check that everything is there that was promised.
    pub(super) fn check_partitions(&mut self) {
        if !self.healed {
            return;
        }
        let partitions = self.group.partitions.iter();
        let results: Vec<_> = partitions
            .map(|partition| partition.messages.check_whole())
            .collect();
        for result in results {
            self.check(0, result);
        }
    }

    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        let partitions = self.group.partitions.iter();
        let known: BTreeSet<_> = partitions.clone().map(|it| it.messages.level()).collect();
        let storage = &self.nodes[0].storage;
        vec![
            (
                "messages known",
                partitions.map(|it| it.messages.len() as u64).sum(),
            ),
            ("levels of durability", known.len() as u64),
            ("operations on files", storage.executed),
            ("starts", self.nodes[0].starts),
        ]
    }
}
