//! Recovery with a persistent log (instead of VRR 4.3, whose replicas have no disk).
//!
//! With its persisted state a replica is safe at once: it serves repair and takes part in view changes. It requests the
//! log of the current view only to catch up sooner. A former primary does not resume its view.

use alloc::vec::Vec;

use crate::api::{Config, Now, Output, RecoveredEntry, Status};
use crate::clients::ClientTable;
use crate::replica::durable::checkpoints::Checkpoints;
use crate::replica::durable::superblock_order::SuperblockOrder;
use crate::replica::flow::Flow;
use crate::replica::log::Log;
use crate::replica::member::{Member, OpenError};
use crate::replica::normal::execution::Execution;
use crate::replica::normal::pipeline::Pipeline;
use crate::replica::outbox::Outbox;
use crate::replica::recent::Recent;
use crate::replica::repair::Repair;
use crate::replica::requests::admission::Admission;
use crate::replica::requests::reads::Reads;
use crate::replica::state_transfer::transfers::Transfers;
use crate::replica::timers::{Moment, Timers};
use crate::replica::view::View;
use crate::replica::view_changes::evidence::ViewChange;
use crate::replica::view_changes::votes::Votes;
use crate::rules::Rules;
use crate::superblock::Superblock;

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    /// Start a replica from its storage.
    ///
    /// The host has restored the checkpoint that `superblock` names into the state machine; `clients` is the client
    /// table in it (empty before the first checkpoint). `log` is the result of the journal scan above that checkpoint.
    pub fn open(
        config: Config,
        rules: R,
        superblock: Superblock,
        log: &[RecoveredEntry],
        clients: &[u8],
        now: Now,
        out: &mut Vec<Output>,
    ) -> Result<Self, OpenError> {
        let member = Member::new(config, rules, &superblock)?;
        let clients = ClientTable::decode(clients).map_err(|_| OpenError::Clients)?;
        let origin = member.origin(&superblock);
        let config = &member.config;
        let (own, members) = (config.replica, config.replica_count);
        let mut moment = Moment::new(now, config.seed);
        let nonce = u128::from(origin.incarnation) << 64 | u128::from(moment.nonce());
        let votes = Votes::new(config, now.monotonic_ns);
        let checkpoint = superblock.checkpoint;
        let mut checkpoints = Checkpoints::new(config);
        if checkpoint.op > 0 {
            checkpoints.remember(checkpoint.op, checkpoint.id);
        }
        let mut replica = Self {
            outbox: Outbox::new(origin, members),
            moment,
            recent: Recent::default(),
            timers: Timers::new(&config.timeouts),
            view: View::opened(superblock.view.clone(), own, members),
            log: Log::new(
                &checkpoint,
                superblock.commit_max,
                config.release,
                config.unstored_bytes_max,
            ),
            execution: Execution::new(clients, config.clients_max),
            checkpoints,
            admission: Admission::new(config),
            pipeline: Pipeline::new(own, members),
            reads: Reads::new(own, members),
            view_change: ViewChange::new(votes, nonce, own),
            repair: Repair::new(config.timeouts.repair_ms),
            transfers: Transfers::new(config.chunk_bytes),
            superblock: SuperblockOrder::opened(superblock),
            member,
        };
        replica.recover_log(log)?;
        replica.guarded(now, out, Self::begin);
        Ok(replica)
    }

    fn recover_log(&mut self, entries: &[RecoveredEntry]) -> Result<(), OpenError> {
        let sequence = self.superblock.durable_sequence();
        self.log.recover(entries, self.view.record(), sequence);
        let own = self.member.config.release;
        if let Some(needed) = self.log.latest_release().filter(|needed| *needed > own) {
            return Err(OpenError::Release { needed, own });
        }
        if self.member.is_alone() {
            self.log
                .recover_alone()
                .map_err(|op| OpenError::Damaged { op })?;
            self.view.begin_alone(self.log.head());
        }
        Ok(())
    }

    fn begin(&mut self) -> Flow {
        self.superblock.request();
        self.cut_journal();
        self.outbox.notice(self.view.notice());
        if self.view.status() == Status::Normal {
            self.arm_normal();
            return self.advance();
        }
        self.send_request_start_view(None);
        self.timers.request_start_view.arm(&mut self.moment);
        Ok(())
    }
}
