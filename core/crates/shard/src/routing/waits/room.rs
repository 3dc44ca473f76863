//! Room for the answers to waiting requests: claimed before a partition is polled, and released while a request waits.

use headrace_link::WhenReady;
use headrace_model::Namespace;

use super::{PARKED_BYTES_MAX, Phase, Wait, Waiting};
use crate::{api::Effect, calls::ConnectionKey};

impl Waiting<'_> {
    /// Enter a phase that polls, as soon as the user's share has room for the answer: for a message of this size, if it
    /// is known.
    pub(super) fn poll_in(
        &mut self,
        key: ConnectionKey,
        wait: &mut Wait,
        phase: Phase,
        message_bytes: Option<u64>,
        effects: &mut Vec<Effect>,
    ) {
        if wait.bytes_max.is_none() || message_bytes.is_some() {
            wait.bytes_max = self.memory.claim_again(self.sessions, key, message_bytes);
        }
        if wait.bytes_max.is_none() {
            let then = Box::new(phase);
            wait.phase = Phase::Claiming { then };
            return;
        }
        wait.phase = phase;
        if let Some(place) = wait.phase.polled(&wait.plan) {
            self.ask(key, wait, place, WhenReady::AnswerNow, effects);
        }
    }

    /// Continue a request whose user's share has room for its answer now.
    pub(crate) fn resume_wait(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        let Some(mut wait) = self.waits.take(key) else {
            return;
        };
        let connection = self.sessions.get_mut(key);
        wait.bytes_max = connection.map(|connection| connection.pipeline.answer_bytes_max());
        if let Phase::Claiming { then } = core::mem::replace(&mut wait.phase, Phase::Nowhere) {
            if wait.is_void {
                wait.phase = *then;
                return self.wait_anew(key, wait, None, effects);
            }
            self.poll_in(key, &mut wait, *then, None, effects);
        }
        self.waits.insert(key, wait);
    }

    /// Park a request at its only partition. Only one that waits for much keeps memory for it.
    pub(super) fn park(
        &mut self,
        key: ConnectionKey,
        wait: &mut Wait,
        place: Namespace,
        effects: &mut Vec<Effect>,
    ) {
        wait.phase = Phase::Parked;
        if let Some(connection) = self.sessions.get_mut(key) {
            let pipeline = &mut connection.pipeline;
            let minimum_bytes = wait.plan.poll.minimum_bytes;
            wait.bytes_max = if minimum_bytes > PARKED_BYTES_MAX {
                pipeline.shrink_answer_claim(minimum_bytes);
                Some(pipeline.answer_bytes_max())
            } else {
                pipeline.release_answer_claim();
                None
            };
        }
        self.ask(key, wait, place, WhenReady::Answer, effects);
    }
}
