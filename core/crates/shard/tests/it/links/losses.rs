//! Lost links: calls that are sent again, calls that wait, and clients whose requests have an unknown outcome.

use headrace_wire::{Command, Status, command::StoreConsumerOffset};

use crate::world::{SILENCE_MICROS, World, offset_path, partition, poll_first};

pub fn poll(partition: u32, auto_commit: bool) -> Command<'static> {
    Command::PollMessages(poll_first(partition, 10, auto_commit))
}

fn store() -> Command<'static> {
    Command::StoreConsumerOffset(StoreConsumerOffset {
        path: offset_path(0),
        offset: 0,
    })
}

/// A world with one client, one message, and an open link.
fn joined() -> (World, usize, usize) {
    let mut world = World::gateway(1);
    let client = world.client();
    world.post(client, 0, &[b"first"]);
    assert_eq!(world.reply(client).status, Status::OK);
    let link = world.links_to(1)[0];
    (world, client, link)
}

fn appends(world: &World) -> usize {
    world.truth.logs[&partition(0)].len() - 1
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Append,
    Store,
    Poll,
    PollAndCommit,
    ReadOffset,
}

impl Asked {
    fn ask(self, world: &mut World, client: usize) {
        match self {
            Self::Append => world.post(client, 0, &[b"second"]),
            Self::Store => world.request(client, &store()),
            Self::Poll => world.request(client, &poll(0, false)),
            Self::PollAndCommit => world.request(client, &poll(0, true)),
            Self::ReadOffset => world.request(client, &Command::GetConsumerOffset(offset_path(0))),
        }
    }

    fn is_harmless(self) -> bool {
        matches!(self, Self::Poll | Self::ReadOffset)
    }
}

/// A request and its answer are cut at every byte: the connection is closed if the request changes data and its outcome
/// is unknown; all other requests are answered.
#[test]
fn a_cut_at_every_byte() {
    for asked in [
        Asked::Append,
        Asked::Store,
        Asked::Poll,
        Asked::PollAndCommit,
        Asked::ReadOffset,
    ] {
        let (mut world, client, link) = joined();
        world.is_held = true;
        asked.ask(&mut world, client);
        let request_bytes = world.wires[link].towards[1].len();
        assert!(request_bytes > 20);
        for bytes in 0..=request_bytes {
            let (mut world, client, link) = joined();
            world.is_held = true;
            asked.ask(&mut world, client);
            world.cut(link, bytes, 0);
            world.is_held = false;
            let is_done = bytes == request_bytes;
            let (before, stored) = (appends(&world), world.truth.stored);
            assert_eq!(
                before + stored as usize,
                usize::from(is_done && matches!(asked, Asked::Append | Asked::Store))
            );
            world.pass(500_000);
            check(&mut world, asked, client);
            assert_eq!(
                (appends(&world), world.truth.stored),
                (before, stored),
                "nothing is done twice"
            );
        }
        // The whole request was delivered: cut the answer.
        let answer_bytes = answer(asked)
            .0
            .wires
            .last()
            .map(|link| link.towards[0].len())
            .unwrap();
        assert!(answer_bytes > 10);
        for bytes in 0..=answer_bytes {
            let (mut world, client, link) = answer(asked);
            world.wires[link].towards[0].truncate(bytes);
            world.wires[link].is_ended[0] = true;
            world.run();
            world.pass(500_000);
            if bytes == answer_bytes {
                assert_eq!(world.reply(client).status, Status::OK);
                assert!(!world.is_closed(client));
            } else {
                check(&mut world, asked, client);
            }
        }
    }
}

/// World with the answer in transit.
fn answer(asked: Asked) -> (World, usize, usize) {
    let (mut world, client, link) = joined();
    world.node(1).is_mute = true;
    asked.ask(&mut world, client);
    let owed = std::mem::take(&mut world.node(1).links.get_mut(&link).unwrap().owed);
    world.wires[link].say(owed);
    world.node(1).is_mute = false;
    (world, client, link)
}

fn check(world: &mut World, asked: Asked, client: usize) {
    if asked.is_harmless() {
        assert_eq!(world.reply(client).status, Status::OK);
        assert!(!world.is_closed(client));
    } else {
        assert!(world.is_closed(client));
        assert_eq!(world.try_reply(client), None);
    }
    // Other connections proceed.
    let other = world.client();
    world.request(other, &poll(0, false));
    assert_eq!(world.reply(other).status, Status::OK);
}

/// A node cannot have received frames that were never handed to the host.
#[test]
fn what_was_never_sent_is_sent_over_the_next_link() {
    let (mut world, first, link) = joined();
    let second = world.client();
    world.is_held = true;
    world.post(first, 0, &[b"perhaps"]);
    // A send is in flight: these frames are queued behind it.
    world.post(second, 0, &[b"surely"]);
    world.post(second, 0, &[b"and this"]);
    world.post(first, 0, &[b"never"]);
    world.cut(link, 10, 0);
    world.is_held = false;
    world.pass(500_000);
    assert!(world.is_closed(first));
    for _ in 0..2 {
        assert_eq!(world.reply(second).status, Status::OK);
    }
    let log: Vec<&[u8]> = world.truth.logs[&partition(0)]
        .iter()
        .map(Vec::as_slice)
        .collect();
    assert_eq!(log, [&b"first"[..], b"surely", b"and this"]);
}

/// A drained node has executed nothing that it has not answered.
#[test]
fn requests_survive_the_drain_of_a_link() {
    let (mut world, client, link) = joined();
    world.node(1).is_mute = true;
    world.post(client, 0, &[b"second"]);
    world.is_held = true;
    world.post(client, 0, &[b"third"]);
    world.post(client, 0, &[b"fourth"]);
    world.drain_link(link);
    world.node(1).is_mute = false;
    world.is_held = false;
    world.down = vec![1];
    world.pass(1_000_000);
    assert_eq!(world.reply(client).status, Status::OK);
    assert_eq!(world.try_reply(client), None);
    world.down.clear();
    world.pass(1_000_000);
    for _ in 0..2 {
        assert_eq!(world.reply(client).status, Status::OK);
    }
    assert!(!world.is_closed(client));
    let log: Vec<&[u8]> = world.truth.logs[&partition(0)]
        .iter()
        .map(Vec::as_slice)
        .collect();
    assert_eq!(log, [&b"first"[..], b"second", b"third", b"fourth"]);
}

#[test]
fn a_link_that_owes_answers_and_is_silent_is_given_up() {
    let (mut world, client, _) = joined();
    // No answers are due, so silence is no failure.
    world.pass(SILENCE_MICROS * 3);
    assert_eq!(world.links_to(1).len(), 1);
    world.node(1).is_mute = true;
    let reader = world.client();
    world.post(client, 0, &[b"second"]);
    world.request(reader, &poll(0, false));
    world.pass(SILENCE_MICROS - 200_000);
    assert!(!world.is_closed(client));
    world.node(1).links.clear();
    world.node(1).is_mute = false;
    world.pass(1_000_000);
    assert!(world.is_closed(client));
    assert_eq!(world.reply(reader).status, Status::OK);
}

/// The link to a node that violates the protocol is closed.
#[test]
fn nonsense_ends_a_link() {
    for nonsense in [
        vec![0xff; 64],
        vec![4, 0, 0, 0, 1, 0, 0, 0],
        vec![12, 0, 0, 0, 0x5e, 0x2b, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8],
        vec![2, 0, 0, 0, 0, 0, 0, 0],
        // An answer with a length above every limit.
        vec![0xff, 0xff, 0xff, 0x7f, 0x5e, 0x2b, 0, 0],
    ] {
        let (mut world, client, link) = joined();
        world.wires[link].towards[0].extend(&nonsense);
        world.run();
        assert!(world.is_closed(link), "{nonsense:?}");
        assert_eq!(world.reports.len(), 1);
        world.post(client, 0, &[b"second"]);
        world.pass(500_000);
        assert_eq!(world.reply(client).status, Status::OK);
    }
}
