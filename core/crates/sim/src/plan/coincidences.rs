//! Fault plans of the profiles: coincidences that random seeds rarely produce.

use super::{Fault, Loss, Planned, around};
use crate::options::{MILLISECOND, Options, SECOND};
use crate::random::{Domain, Draw, Fates};

/// Power cuts of all nodes, about one per second, and no other faults.
pub fn power_cuts(fates: &Fates, options: &Options) -> Vec<Planned> {
    let mut plan = Vec::new();
    let mut at_ns = 0;
    for count in 0.. {
        let mut draw = fates.draw(Domain::Plan, 2, 0, count);
        at_ns += draw.exponential(600 * MILLISECOND) + 1_500 * MILLISECOND;
        if at_ns >= options.safety_ns {
            break;
        }
        let fault = Fault::PowerCut {
            loss: draw.pick(&[Loss::Prefix, Loss::Sectors, Loss::Sectors, Loss::Sectors]),
            down_ns: draw.within(10, 100) * MILLISECOND,
        };
        plan.push(Planned { at_ns, fault });
    }
    plan
}

/// Disk replacements while single members are cut off from the rest.
pub fn replacements(fates: &Fates, options: &Options) -> Vec<Planned> {
    let mut plan = single_replacements(*fates, options);
    let mut draw = fates.draw(Domain::Plan, 3, 2, 0);
    if options.replicas == 3 && draw.chance(300_000) {
        let at_ns = options.safety_ns / 2;
        plan.retain(|planned| planned.at_ns < at_ns);
        plan.extend(given_up(&mut draw, at_ns, options));
    }
    plan
}

/// Two members are lost, one of them for good, and those that are left crash a few times.
fn given_up(draw: &mut Draw, mut at_ns: u64, options: &Options) -> Vec<Planned> {
    let any = |draw: &mut Draw| u8::try_from(draw.below(3)).expect("small");
    let fault = Fault::GivenUp {
        replica: any(draw),
        down_ns: draw.within(10, 400) * MILLISECOND,
    };
    let mut plan = vec![Planned { at_ns, fault }];
    loop {
        at_ns += draw.exponential(SECOND) + 100 * MILLISECOND;
        if at_ns >= options.safety_ns {
            return plan;
        }
        let fault = Fault::Crash {
            replicas: 1 << any(draw),
            power: draw.chance(500_000).then_some(Loss::All),
            down_ns: draw.within(10, 400) * MILLISECOND,
        };
        plan.push(Planned { at_ns, fault });
    }
}

fn single_replacements(fates: Fates, options: &Options) -> Vec<Planned> {
    let mut draw = fates.draw(Domain::Plan, 3, 1, 0);
    let n = options.replicas;
    let mut plan = Vec::new();
    let mut at_ns = 0;
    if n == 3 && draw.chance(500_000) {
        plan = late_and_lost(
            u8::try_from(draw.below(3)).expect("small"),
            draw.chance(500_000),
        );
        at_ns = 5 * SECOND;
    }
    for count in 0.. {
        let mut draw = fates.draw(Domain::Plan, 3, 0, count);
        let (replica, alone) = (draw.below(n.into()), draw.below(n.into()));
        let (replica, alone) = (
            u8::try_from(replica).expect("small"),
            u8::try_from(alone).expect("small"),
        );
        at_ns += draw.exponential(SECOND) + 100 * MILLISECOND;
        if at_ns >= options.safety_ns {
            break;
        }
        let fault = if draw.chance(400_000) {
            Fault::DiskReplaced {
                replica,
                down_ns: draw.within(10, 400) * MILLISECOND,
            }
        } else {
            Fault::Cut {
                links: around(alone, n),
                for_ns: draw.exponential(2 * SECOND) + 10 * MILLISECOND,
                hold: draw.chance(300_000),
            }
        };
        plan.push(Planned { at_ns, fault });
    }
    plan
}

/// One member has completed its handshakes and misses all later operations. Another one loses its disk, and connects to
/// the first one before it connects to the member with the operations.
fn late_and_lost(late: u8, next: bool) -> Vec<Planned> {
    let other = |distance: u8| (late + distance) % 3;
    let (lost, knows) = if next {
        (other(1), other(2))
    } else {
        (other(2), other(1))
    };
    let cut = |at_ms: u64, alone, for_ms: u64| Planned {
        at_ns: at_ms * MILLISECOND,
        fault: Fault::Cut {
            links: around(alone, 3),
            for_ns: for_ms * MILLISECOND,
            hold: false,
        },
    };
    vec![
        cut(200, late, 2_300),
        Planned {
            at_ns: 2_000 * MILLISECOND,
            fault: Fault::DiskReplaced {
                replica: lost,
                down_ns: 600 * MILLISECOND,
            },
        },
        cut(2_400, knows, 2_500),
    ]
}

/// Restorations of data directories from older copies, while single members are cut off from the rest.
pub fn restorations(fates: &Fates, options: &Options) -> Vec<Planned> {
    let n = options.replicas;
    let mut plan = Vec::new();
    let mut at_ns = 0;
    for count in 0.. {
        let mut draw = fates.draw(Domain::Plan, 4, 0, count);
        let replica = u8::try_from(draw.below(n.into())).expect("small");
        let next = u8::try_from(draw.within(1, u64::from(n) - 1)).expect("small");
        at_ns += 200 * MILLISECOND + draw.exponential(300 * MILLISECOND);
        if at_ns >= options.safety_ns {
            break;
        }
        plan.extend(rolled_back(&mut draw, at_ns, n, replica, next));
        at_ns += 7 * SECOND;
    }
    plan.sort_by_key(|planned| planned.at_ns);
    plan
}

/// Crashes before a sync, followed by a power loss before anything else syncs the bytes that the restart has read.
pub fn kills(fates: &Fates, options: &Options) -> Vec<Planned> {
    let mut plan = Vec::new();
    // Start after all handshakes are complete.
    let mut at_ns = 3 * SECOND;
    for count in 0.. {
        let mut draw = fates.draw(Domain::Plan, 5, 0, count);
        let lags = u8::try_from(draw.below(3)).expect("small");
        let next = u8::try_from(draw.within(1, 2)).expect("small");
        let killed = killed(&mut draw, at_ns, options, lags, (lags + next) % 3);
        plan.extend(killed);
        at_ns += 8 * SECOND;
        if at_ns >= options.safety_ns {
            break;
        }
    }
    plan
}

/// One member lags behind, and another one crashes: the records that it trusts after its restart commit with the third
/// member. Afterwards its power fails, and the two members that may lack these records continue alone.
fn killed(draw: &mut Draw, at_ns: u64, options: &Options, lags: u8, replica: u8) -> Vec<Planned> {
    const KILLED_MS: u64 = 2_500;
    // With large commands, which fill files, the test is about names.
    let of_directory = options.workload.padding > 0;
    let dark_ms = KILLED_MS
        + if of_directory {
            draw.within(600, 2_000)
        } else {
            draw.within(150, 1_100)
        };
    let knows = 3 - lags - replica;
    let after = |ms: u64, fault| Planned {
        at_ns: at_ns + ms * MILLISECOND,
        fault,
    };
    let cut = |alone: u8, for_ms: u64| Fault::Cut {
        links: around(alone, 3),
        for_ns: for_ms * MILLISECOND,
        hold: false,
    };
    vec![
        after(0, cut(lags, dark_ms)),
        after(
            KILLED_MS,
            Fault::CrashAtSync {
                replica,
                of_directory,
                after: u8::try_from(draw.below(if of_directory { 2 } else { 1 })).expect("small"),
                down_ns: draw.within(5, 20) * MILLISECOND,
            },
        ),
        after(
            dark_ms,
            Fault::Crash {
                replicas: 1 << replica,
                power: Some(draw.pick(&[Loss::All, Loss::All, Loss::All, Loss::Sectors])),
                down_ns: draw.within(10, 100) * MILLISECOND,
            },
        ),
        after(dark_ms, cut(knows, 4_000)),
    ]
}

/// One member lags behind while another commits with the rest; that one is rolled back, and the rest is cut off in
/// turn.
fn rolled_back(draw: &mut Draw, at_ns: u64, n: u8, replica: u8, next: u8) -> Vec<Planned> {
    let lags = (replica + next) % n;
    let after = |ms: u64, fault| Planned {
        at_ns: at_ns + ms * MILLISECOND,
        fault,
    };
    let cut = |alone: u8, for_ms: u64| Fault::Cut {
        links: around(alone, n),
        for_ns: for_ms * MILLISECOND,
        hold: false,
    };
    let mut plan = vec![
        after(0, Fault::DirectoryCopied { replica }),
        after(
            200,
            Fault::Crash {
                replicas: 1 << replica,
                power: None,
                down_ns: draw.within(10, 200) * MILLISECOND,
            },
        ),
        after(1_600, cut(lags, 1_500)),
        after(
            2_900,
            Fault::DirectoryRestored {
                replica,
                down_ns: draw.within(50, 400) * MILLISECOND,
            },
        ),
    ];
    let knows = (0..n).filter(|member| *member != replica && *member != lags);
    plan.extend(
        knows
            .take(usize::from(n / 2))
            .map(|member| after(3_000, cut(member, 3_000))),
    );
    plan
}
