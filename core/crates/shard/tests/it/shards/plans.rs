//! Splitting of offset ranges.

use headrace_shard::Hosting;
use headrace_ticket::{Access, Scope};
use headrace_wire::{
    Command, Identifier, Status,
    command::{LoginWithTicket, PlanRange},
    response::{PlannedRange, RangeSplit},
};

use crate::shards::{
    nodes::{HERE, node_here},
    served::peer::{INCARNATION, ticket},
};
use crate::world::{World, partition};

fn request(partition_id: u32, start: u64, end: u64) -> Command<'static> {
    Command::PlanRange(PlanRange {
        stream: Identifier::Named("s"),
        topic: Identifier::Named("t"),
        partition_id,
        start,
        end,
        target_bytes: 0,
    })
}

#[test]
fn a_range_is_planned_by_the_shard_that_has_the_partition() {
    let mut world = World::new().with_topic(2);
    for at in [0, 1] {
        let link = world.login(at);
        for partition in [0, 1] {
            assert_eq!(
                world.send(link, partition, &[b"one", b"two", b"three"]),
                Status::OK
            );
            let next_offset = 3 * (at as u64 + 1);
            let reply = world.ask(link, &request(partition, 1, 3));
            assert_eq!(reply.status, Status::OK);
            let plan = PlannedRange::decode(&reply.payload).unwrap();
            assert_eq!((plan.first_offset, plan.next_offset), (0, next_offset));
            assert!(
                matches!(plan.splits[..], [RangeSplit { offset: 1, .. }]),
                "{plan:?}"
            );
        }
        let reply = world.ask(link, &request(2, 1, 3));
        assert_eq!(reply.status, Status::PARTITION_NOT_FOUND);
    }
}

/// The command requires permission to read.
#[test]
fn who_may_read_may_plan() {
    for (access, expected) in [
        (Access::READ, Status::OK),
        (Access::WRITE, Status::UNAUTHORIZED),
    ] {
        let mut world = node_here(&[HERE]);
        let scope = Scope::Partition {
            namespace: partition(0),
            incarnation: INCARNATION,
            access,
        };
        let ticket = ticket(&world, scope);
        let link = world.connect(0);
        let login = Command::LoginWithTicket(LoginWithTicket { ticket: &ticket });
        assert_eq!(world.ask(link, &login).status, Status::OK);
        assert_eq!(world.ask(link, &request(0, 0, 9)).status, expected);
    }
    let mut world = World::hosting(&Hosting::Everything).with_topic(1);
    let unauthenticated = world.connect(0);
    assert_eq!(
        world.ask(unauthenticated, &request(0, 0, 9)).status,
        Status::UNAUTHENTICATED
    );
}
