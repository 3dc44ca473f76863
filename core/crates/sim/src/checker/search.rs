//! Linearizability check by search: some order of the calls of each name must explain their answers, without the
//! operation numbers of the log.
//!
//! [`History::check`](super::History::check) relies on those numbers and would miss an error that is consistent in
//! them. This check uses only times and answers. It tries as the next call each one that no other call must precede,
//! and prunes an order that cannot be completed (Wing and Gong), together with all orders that reach the same state
//! with the same calls done (Lowe).

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Call, CallResult, Invocation};
use super::violation::{Check, Violation};
use crate::machine::{Action, Answer, CONFLICT, Command, NOT_FOUND};

/// One in this many runs is searched.
pub const SEARCHED: u64 = 20;
/// Maximum number of calls per name that are searched: the earliest ones.
pub const CALLS_MAX: usize = 400;
/// Maximum number of states per search. An order is usually found after as many states as there are calls.
const STATES_MAX: usize = 50_000;

/// Results of a search, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// Number of names for which an order was found.
    pub explained: u64,
    /// Number of names for which the search was aborted.
    pub undecided: u64,
}

/// Call on a name. A read is a [`Action::Get`].
#[derive(Clone, Copy, Debug)]
struct Step {
    action: Action,
    id: u64,
    expected: u64,
    asked_ns: u64,
    /// Time and content of the answer; `None`: the call may have taken effect at any time since its invocation, or
    /// never.
    answered: Option<(u64, Answer)>,
}

/// Value of a name: the id of the command that set it.
type Value = Option<u64>;

/// Check for each name that some order of its calls explains all answers.
pub fn search(calls: &[Call]) -> Result<Searched, Violation> {
    let versions = versions(calls)?;
    let mut found = Searched::default();
    for (key, steps) in by_name(calls) {
        let steps = first_calls(steps);
        match is_explained(&steps, &versions) {
            Some(true) => found.explained += 1,
            Some(false) => {
                let what = format!(
                    "no order of {} calls of name {key} explains them",
                    steps.len()
                );
                return Err(Violation::new(Check::Linearizability, what));
            }
            None => found.undecided += 1,
        }
    }
    Ok(found)
}

/// Version of each value, according to the answers.
fn versions(calls: &[Call]) -> Result<BTreeMap<u64, u64>, Violation> {
    let mut versions = BTreeMap::new();
    for call in calls {
        if let CallResult::Answered { answer, .. } = call.ending
            && answer.version != 0
        {
            let known = *versions.entry(answer.value).or_insert(answer.version);
            if known != answer.version {
                let what = format!(
                    "value {} was seen with version {known} and with {}",
                    answer.value, answer.version
                );
                return Err(Violation::new(Check::Linearizability, what));
            }
        }
    }
    Ok(versions)
}

/// Relevant calls of each name. Refused calls had no effect, and reads without an answer carry no information.
fn by_name(calls: &[Call]) -> BTreeMap<u8, Vec<Step>> {
    let mut names: BTreeMap<u8, Vec<Step>> = BTreeMap::new();
    for call in calls {
        let command = match call.question {
            Invocation::Execute { command } => command,
            Invocation::Read { key } => Command {
                action: Action::Get,
                key,
                id: 0,
                expected: 0,
            },
        };
        let answered = match call.ending {
            CallResult::Answered { at_ns, answer, .. } => Some((at_ns, answer)),
            CallResult::Unknown => None,
            CallResult::Refused => continue,
        };
        if command.action == Action::Get && answered.is_none() {
            continue;
        }
        names.entry(command.key).or_default().push(Step {
            action: command.action,
            id: command.id,
            expected: command.expected,
            asked_ns: call.invoked_ns,
            answered,
        });
    }
    names
}

/// Restrict to the first [`CALLS_MAX`] calls. An answer given after the first dropped call was invoked may depend on
/// that call, so the answer is ignored.
fn first_calls(mut steps: Vec<Step>) -> Vec<Step> {
    steps.sort_by_key(|step| step.asked_ns);
    if let Some(end_ns) = steps.get(CALLS_MAX).map(|step| step.asked_ns) {
        steps.truncate(CALLS_MAX);
        for step in &mut steps {
            step.answered = step.answered.filter(|(at_ns, _)| *at_ns < end_ns);
        }
        steps.retain(|step| step.action != Action::Get || step.answered.is_some());
    }
    steps
}

/// Set of calls already placed in the order, one bit each.
type Done = Vec<u64>;

fn has(done: &Done, step: usize) -> bool {
    done[step / 64] >> (step % 64) & 1 == 1
}

/// Return whether some order explains all answers; `None` if the search was aborted.
fn is_explained(steps: &[Step], versions: &BTreeMap<u64, u64>) -> Option<bool> {
    let nothing: Done = vec![0; steps.len().div_ceil(64)];
    let mut seen = BTreeSet::from([(nothing.clone(), None)]);
    let mut open: Vec<(Done, Value)> = vec![(nothing, None)];
    while let Some((done, value)) = open.pop() {
        let left = |step: &usize| !has(&done, *step);
        let answered_ns = |step: usize| steps[step].answered.map(|(at_ns, _)| at_ns);
        let Some(earliest_ns) = (0..steps.len()).filter(left).filter_map(answered_ns).min() else {
            return Some(true);
        };
        // No remaining call was answered before these were invoked.
        let may_be_next = |step: &usize| steps[*step].asked_ns <= earliest_ns;
        let mut next: Vec<usize> = (0..steps.len()).filter(left).filter(may_be_next).collect();
        // The last one is tried first: answered calls, in the order of their answers, before those that may have had no
        // effect.
        next.sort_by_key(|step| std::cmp::Reverse(answered_ns(*step).unwrap_or(u64::MAX)));
        for step in next {
            for after in outcomes(&steps[step], value, versions)
                .into_iter()
                .flatten()
            {
                let mut done = done.clone();
                done[step / 64] |= 1 << (step % 64);
                if seen.len() >= STATES_MAX {
                    return None;
                }
                if seen.insert((done.clone(), after)) {
                    open.push((done, after));
                }
            }
        }
    }
    Some(false)
}

/// Possible values of a name if the step takes effect now: none if they contradict the answer of the step.
fn outcomes(step: &Step, value: Value, versions: &BTreeMap<u64, u64>) -> [Option<Value>; 2] {
    let of = |status: u32, value: Value| {
        let version = value.map_or(Some(0), |value| versions.get(&value).copied());
        move |answer: Answer| {
            answer.status == status
                && answer.value == value.unwrap_or(0)
                && version.is_none_or(|version| version == answer.version)
        }
    };
    // Status and value of the answer, and the value afterwards. A swap of a value with unknown version may succeed or
    // fail.
    let set = (0, Some(step.id), Some(step.id));
    let possible = match (step.action, value) {
        (Action::Put, _) | (Action::PutNew, None) => [Some(set), None],
        (Action::PutNew, Some(_)) => [Some((CONFLICT, value, value)), None],
        (Action::Swap, Some(held)) => match versions.get(&held) {
            Some(version) if *version == step.expected => [Some(set), None],
            Some(_) => [Some((CONFLICT, value, value)), None],
            None => [Some(set), Some((CONFLICT, value, value))],
        },
        (Action::Delete, Some(_)) => [Some((0, value, None)), None],
        (Action::Get, Some(_)) => [Some((0, value, value)), None],
        (Action::Swap | Action::Delete | Action::Get, None) | (Action::Given, _) => {
            [Some((NOT_FOUND, None, value)), None]
        }
    };
    possible.map(|outcome| {
        let (status, shown, after) = outcome?;
        let fits = of(status, shown);
        step.answered
            .is_none_or(|(_, answer)| fits(answer))
            .then_some(after)
    })
}

#[cfg(test)]
mod tests;
