//! Search of every interleaving of the steps of a few threads.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex},
    thread,
};

use super::*;

#[derive(Default)]
struct World {
    /// Threads in the order of their remaining steps.
    turns: VecDeque<usize>,
    flag: bool,
    signal: bool,
    waiting: usize,
}

#[derive(Default)]
struct Stage {
    world: Mutex<World>,
    changed: Condvar,
}

/// One of the threads: each of its steps waits for its turn.
struct Actor<'a> {
    name: usize,
    stage: &'a Stage,
}

impl Actor<'_> {
    fn step<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
        let world = self.stage.world.lock().unwrap();
        let is_early = |world: &mut World| world.turns.front() != Some(&self.name);
        let mut world = self.stage.changed.wait_while(world, is_early).unwrap();
        world.turns.pop_front();
        let result = act(&mut world);
        self.stage.changed.notify_all();
        result
    }

    fn push(&self) {
        self.step(|world| world.waiting += 1);
        wake(self);
    }

    fn look(&self) {
        self.step(|world| world.waiting = 0);
    }
}

impl Drop for Actor<'_> {
    /// Discard the remaining turns of a thread that needed fewer.
    fn drop(&mut self) {
        let mut world = self.stage.world.lock().unwrap();
        world.turns.retain(|turn| *turn != self.name);
        self.stage.changed.notify_all();
    }
}

impl WakeupSignal for Actor<'_> {
    fn set_flag(&self) -> bool {
        self.step(|world| std::mem::replace(&mut world.flag, true))
    }

    fn clear_flag(&self) {
        self.step(|world| world.flag = false);
    }

    fn signal(&self) {
        self.step(|world| world.signal = true);
    }

    fn silence(&self) {
        self.step(|world| world.signal = false);
    }
}

/// Maximum number of steps of a push or a take.
const STEPS: usize = 3;
const TAKER: usize = 0;

/// Return whether no interleaving loses a wake-up. One push was done before. The taker takes `takes` times, and each of
/// the other threads pushes as often as `pushes` states.
fn is_sound(takes: usize, pushes: &[usize], take_once: fn(&Actor<'_>)) -> bool {
    let mut left = vec![takes * STEPS];
    left.extend(pushes.iter().map(|pushes| pushes * STEPS));
    interleavings(&left).into_iter().all(|turns| {
        let stage = Stage {
            world: Mutex::new(World {
                turns: turns.into(),
                flag: true,
                signal: true,
                waiting: 1,
            }),
            changed: Condvar::new(),
        };
        let act = |name| Actor {
            name,
            stage: &stage,
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                let actor = act(TAKER);
                (0..takes).for_each(|_| take_once(&actor));
            });
            for (name, &pushes) in (1..).zip(pushes) {
                let actor = act(name);
                scope.spawn(move || (0..pushes).for_each(|_| actor.push()));
            }
        });
        // Waiting items must be signalled, and so must later ones: a flag that is still set would suppress the signal.
        let world = stage.world.into_inner().unwrap();
        world.signal || (world.waiting == 0 && !world.flag)
    })
}

/// All interleavings of the given numbers of turns.
fn interleavings(left: &[usize]) -> Vec<Vec<usize>> {
    if left.iter().all(|turns| *turns == 0) {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for name in (0..left.len()).filter(|name| left[*name] > 0) {
        let mut left = left.to_vec();
        left[name] -= 1;
        for mut turns in interleavings(&left) {
            turns.push(name);
            all.push(turns);
        }
    }
    all
}

#[test]
fn no_wake_up_is_lost_between_two_takes() {
    assert!(is_sound(2, &[2], |taker| take(taker, || taker.look())));
}

#[test]
fn no_wake_up_of_two_at_once_is_lost() {
    assert!(is_sound(1, &[1, 1], |taker| take(taker, || taker.look())));
}

/// Counter-check: every other order of the steps in `take` loses a wake-up, and the search finds the loss.
#[test]
fn every_other_order_loses_one() {
    let others: [fn(&Actor<'_>); 5] = [
        |taker| {
            taker.clear_flag();
            taker.silence();
            taker.look();
        },
        |taker| {
            taker.silence();
            taker.look();
            taker.clear_flag();
        },
        |taker| {
            taker.look();
            taker.silence();
            taker.clear_flag();
        },
        |taker| {
            taker.look();
            taker.clear_flag();
            taker.silence();
        },
        |taker| {
            taker.clear_flag();
            taker.look();
            taker.silence();
        },
    ];
    for take_once in others {
        assert!(!is_sound(1, &[1], take_once));
    }
}
