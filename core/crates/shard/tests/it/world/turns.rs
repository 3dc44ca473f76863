//! Steps of the simulation: connections open, bytes arrive, shards run a turn, nodes answer, time passes.

use headrace_log::storage::StorageCompletion;
use headrace_model::Timestamp;
use headrace_shard::Input;

use super::{World, wire::End};

impl World {
    /// Run until nothing happens any more; nothing unless the world is calm.
    pub fn run(&mut self) {
        if self.is_calm {
            while self.turn() {}
        }
    }

    /// Run one turn of everything. Returns whether something has happened.
    pub fn turn(&mut self) -> bool {
        let mut is_busy = self.connect_next();
        is_busy |= self.store();
        for process in 0..self.processes.len() {
            if self.chance() {
                is_busy |= self.turn_of(process);
            }
        }
        is_busy | self.serve()
    }

    pub(super) fn chance(&mut self) -> bool {
        self.is_calm || self.random.bool()
    }

    /// Run one turn of each shard of a process.
    pub(super) fn turn_of(&mut self, process: usize) -> bool {
        self.now += 10;
        let now = Timestamp(self.now);
        let mut is_busy = false;
        for shard in 0..self.processes[process].shards.len() {
            self.carry(process, shard);
            let host = &mut self.processes[process];
            let mut effects = Vec::new();
            is_busy |= host.shards[shard].awaits_turn();
            host.shards[shard].begin_turn(now, &mut effects);
            for input in std::mem::take(&mut host.inputs[shard]) {
                is_busy = true;
                host.shards[shard].step(now, input, &mut effects);
            }
            host.shards[shard].end_of_turn(now, &mut effects);
            is_busy |= !effects.is_empty();
            self.execute(process, shard, effects);
        }
        is_busy
    }

    /// Deliver bytes to a shard, and completions of its sends.
    fn carry(&mut self, process: usize, shard: usize) {
        for wire in &mut self.wires {
            for side in 0..2 {
                let is_its = |end: &End| end.process == process && end.shard == shard;
                let is_late = !self.is_calm && self.random.u32(0..4) == 0;
                if is_late || !wire.ends[side].as_ref().is_some_and(is_its) {
                    continue;
                }
                let (random, is_calm) = (&mut self.random, self.is_calm);
                let some = |all: usize| if is_calm { all } else { random.usize(0..=all) };
                let is_held = self.is_held && wire.node.is_some();
                let inputs = wire.carry(side, is_held, some);
                self.processes[process].inputs[shard].extend(inputs);
            }
        }
    }

    /// Execute some of the storage operations.
    pub(super) fn store(&mut self) -> bool {
        let count = match (self.storage_held, self.is_storage_slow) {
            (true, _) => 0,
            (false, true) => self.random.usize(0..=self.storage.len().min(4)),
            (false, false) => self.storage.len(),
        };
        for _ in 0..count {
            self.store_one();
        }
        count > 0
    }

    fn store_one(&mut self) {
        let (process, shard, namespace, request) = self.storage.pop_front().expect("one is there");
        let pool = self.processes[process].memory.pool();
        let completion = StorageCompletion {
            id: request.id,
            result: self.files.execute(namespace, request.operation, pool),
        };
        self.processes[process].inputs[shard].push_back(Input::Storage {
            namespace,
            completion,
        });
    }

    /// Execute the storage operation that was held back first.
    pub fn release_one(&mut self) {
        self.store_one();
        self.run();
    }

    /// Execute the storage operations that were held back.
    pub fn release_storage(&mut self) {
        self.storage_held = false;
        self.run();
    }

    /// Deliver the mail that was held back.
    pub fn release_mail(&mut self) {
        self.mail_held = false;
        while let Some((process, shard, mail)) = self.held_mail.pop_front() {
            self.processes[process].inputs[shard].push_back(Input::Mail(mail));
        }
        self.run();
    }

    /// Advance the time, in steps of the host's ticks.
    pub fn pass(&mut self, micros: u64) {
        let until = self.now + micros;
        while self.now < until {
            self.now = until.min(self.now.saturating_add(self.tick_micros));
            for process in 0..self.processes.len() {
                for shard in 0..self.processes[process].shards.len() {
                    let mut effects = Vec::new();
                    let now = Timestamp(self.now);
                    self.processes[process].shards[shard].tick(now, &mut effects);
                    self.execute(process, shard, effects);
                }
            }
            if self.is_calm {
                self.run();
            } else {
                self.turn();
            }
        }
    }

    /// Begin the shutdown of every process.
    pub fn shut_down(&mut self) {
        for process in &mut self.processes {
            process.put(|| Input::Shutdown);
        }
        self.run();
    }

    /// Complete the shutdown that [`World::shut_down`] began.
    pub fn close_partitions(&mut self) {
        assert!(self.is_drained());
        self.end_shutdown();
    }

    /// End the shutdown that [`World::shut_down`] began, although connections may be left.
    pub fn end_shutdown(&mut self) {
        for process in &mut self.processes {
            process.put(|| Input::ClosePartitions);
        }
        self.run();
    }
}
