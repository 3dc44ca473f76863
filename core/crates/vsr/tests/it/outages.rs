//! Outages of a majority: the group serves soon after one of the missing members is back.

use headrace_vsr::api::{Event, Status};
use headrace_vsr::rules::Standard;
use headrace_vsr::timeouts::Profile;

use crate::world::World;

/// Members of a group that have left the view of the first primary, 1, and wait for the log of the next one. All but `lone`
/// are down.
fn in_view_change(lone: u8) -> World<Standard> {
    let mut world = World::new(3, Standard);
    world.trace.on = false;
    world.start_all();
    world.pass(3_000, &[]);
    world.crash(1, 0, false);
    // The other one votes, and does not hear that the view has begun.
    let deaf = 2 - lone;
    world.deaf = vec![deaf];
    while world.replica(lone).report().status == Status::Normal {
        world.pass(10, &[]);
    }
    world.crash(deaf, 0, false);
    world.deaf.clear();
    world
}

fn serves(world: &World<Standard>, index: u8) -> bool {
    world.replica(index).report().status == Status::Normal
}

/// Milliseconds until both serve.
fn recovery_ms(world: &mut World<Standard>, both: [u8; 2], cut: &[u8]) -> u64 {
    let began_ms = world.now_ms;
    while !both.iter().all(|index| serves(world, *index)) {
        world.pass(10, cut);
        assert!(world.now_ms < began_ms + 120_000, "{both:?} do not serve");
    }
    world.now_ms - began_ms
}

fn connect(world: &mut World<Standard>, both: [u8; 2]) {
    for index in both {
        world.step(index, vec![Event::PeerConnected]);
    }
}

/// The member that is back may wait once for a primary that is still missing.
#[test]
fn ctl_4_a_group_serves_soon_after_a_long_outage_of_its_majority() {
    let wait_ms = 4 * u64::from(Profile::Default.timeouts().view_change_status_ms);
    for outage_ms in (1_000..100_000).step_by(3_000) {
        for (lone, back) in [(0, 1), (0, 2), (2, 0), (2, 1)] {
            let mut world = in_view_change(lone);
            world.pass(outage_ms, &[]);
            world.start(back);
            connect(&mut world, [lone, back]);
            let took_ms = recovery_ms(&mut world, [lone, back], &[]);
            assert!(
                took_ms <= wait_ms + 200,
                "{took_ms} ms for {lone} and {back} after {outage_ms} ms"
            );
        }
    }
}

/// Both have voted for the next view long ago, and only have to repeat their votes.
#[test]
fn ctl_4_a_group_serves_at_once_when_two_members_that_were_cut_off_meet_again() {
    for outage_ms in (10_000..100_000).step_by(3_000) {
        let mut world = in_view_change(0);
        world.start(1);
        world.pass(300, &[]);
        world.crash(2, 0, false);
        world.pass(outage_ms, &[0, 1, 2]);
        let status = |index| world.replica(index).report().status;
        assert!(status(0) != Status::Normal);
        connect(&mut world, [0, 1]);
        let took_ms = recovery_ms(&mut world, [0, 1], &[]);
        assert!(took_ms <= 200, "{took_ms} ms after {outage_ms} ms");
    }
}
