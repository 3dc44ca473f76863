//! Scenarios as text: commands, each followed by the trace of the replicas.
//!
//! Lines that start with `#` are comments, with `>` commands; all others are the expected trace of the command above.

use std::fmt::Write as _;

use headrace_buffer::Slice;
use headrace_vsr::api::Event;
use headrace_vsr::frame::area::Request;
use headrace_vsr::frame::{Command, Frame, Operation, Origin};
use headrace_vsr::rules::Standard;

use super::{CLUSTER, Flying, World};

/// Run a scenario. Returns its text with the actual traces.
pub fn run(text: &str) -> String {
    let mut world: Option<World> = None;
    let mut result = String::new();
    for line in text.lines() {
        if line.is_empty() || line.starts_with('#') {
            writeln!(result, "{line}").unwrap();
        }
        let Some(command) = line.strip_prefix("> ") else {
            continue;
        };
        writeln!(result, "{line}").unwrap();
        let (command, quiet) = match command.strip_prefix("quiet ") {
            Some(command) => (command, true),
            None => (command, false),
        };
        let mut words = command.split_whitespace();
        let verb = words.next().unwrap();
        let words: Vec<&str> = words.collect();
        if verb == "group" {
            world = Some(group(&words));
            continue;
        }
        let world = world.as_mut().expect("a scenario begins with `group`");
        world.trace.on = !quiet;
        let said = act(world, verb, &words);
        for line in world.trace.take().lines().chain(said.lines()) {
            writeln!(result, "{line}").unwrap();
        }
    }
    result
}

fn group(words: &[&str]) -> World {
    let mut world = World::new(words[0].parse().unwrap(), Standard);
    if let Some(ops) = option(words, "checkpoint") {
        world.checkpoint_ops = ops.parse().unwrap();
    }
    if let Some(ops) = option(words, "keep") {
        world.keep_ops = ops.parse().unwrap();
    }
    if let Some(bytes) = option(words, "unstored") {
        world.unstored_bytes = bytes.parse().unwrap();
    }
    world
}

fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words
        .iter()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn cut(words: &[&str]) -> Vec<u8> {
    option(words, "cut").map_or(Vec::new(), |list| {
        list.split(',').map(|node| node.parse().unwrap()).collect()
    })
}

fn act(world: &mut World, verb: &str, words: &[&str]) -> String {
    let node = |at: usize| -> u8 { words[at].parse().unwrap() };
    match verb {
        "start" if words == ["all"] => world.start_all(),
        "start" => world.start(node(0)),
        "crash" => {
            let appended = option(words, "appended").map_or(0, |count| count.parse().unwrap());
            world.crash(node(0), appended, words.contains(&"superblock"));
        }
        "propose" => {
            world.propose(node(0), words[1].as_bytes());
        }
        "register" => request(world, words, Operation::REGISTER),
        "request" => request(world, words, Operation::METADATA_FIRST),
        "fill" => {
            for _ in 0..words[1].parse::<u32>().unwrap() {
                world.propose(node(0), b"fill");
                world.settle();
            }
        }
        "deaf" => {
            world.deaf = words.iter().filter_map(|node| node.parse().ok()).collect();
        }
        "slow" => {
            world.slow = words.iter().filter_map(|node| node.parse().ok()).collect();
        }
        "advance" => {
            world.now_ms += words[0].parse::<u64>().unwrap();
            for index in 0..world.members() {
                world.tick(index);
            }
        }
        "read" => world.read(node(0), words[1].parse().unwrap()),
        "journal" => {
            world.write_journal(node(0));
        }
        "superblock" => {
            world.write_superblock(node(0));
        }
        "complete" => {
            world.complete(node(0));
        }
        "storage" => world.settle_storage(),
        "settle" => world.settle_except(&cut(words)),
        "pass" => world.pass(words[0].parse().unwrap(), &cut(words)),
        "deliver" => {
            for flying in take(world, words) {
                world.deliver(flying);
            }
        }
        "repeat" => {
            for flying in take(world, words) {
                world.deliver(flying.clone());
                world.net.push(flying);
            }
        }
        "drop" => {
            take(world, words);
        }
        "rot" => {
            let op = words[1].parse().unwrap();
            world.node_mut(node(0)).disk.journal.get_mut(&op).unwrap().1 = false;
        }
        "report" => return report(world),
        _ => panic!("unknown command {verb}"),
    }
    String::new()
}

/// Take frames out of the network: `0->1 StartView`, `0->*`, `*->* Prepare`, `all`.
fn take(world: &mut World, words: &[&str]) -> Vec<Flying> {
    let (from, to) = words[0].split_once("->").unwrap_or(("*", "*"));
    let command = words.get(1).copied();
    let matches = |flying: &Flying| {
        (from == "*" || from == flying.from.to_string())
            && (to == "*" || to == flying.to.to_string())
            && command.is_none_or(|name| {
                Command::ALL.iter().any(|known| {
                    *known == flying.frame.header.command() && format!("{known:?}") == name
                })
            })
    };
    let (taken, left) = std::mem::take(&mut world.net)
        .into_iter()
        .partition(matches);
    world.net = left;
    taken
}

/// `request NODE CLIENT SESSION NUMBER TEXT`
fn request(world: &mut World, words: &[&str], operation: Operation) {
    let origin = Origin {
        cluster: CLUSTER,
        group: 1,
        ..Origin::default()
    };
    let number = |at: usize| words.get(at).map_or(0, |word| word.parse().unwrap());
    let area = Request {
        client: u128::from(number(1)),
        session: number(2),
        request: number(3),
        count: 1,
        operation,
        ..Request::default()
    };
    let body = words
        .get(4)
        .copied()
        .unwrap_or_default()
        .as_bytes()
        .to_vec();
    let frame = Frame::seal(origin, area, Slice::from_vec(body)).any();
    world.step(words[0].parse().unwrap(), vec![Event::Request(frame)]);
}

fn report(world: &World) -> String {
    let mut text = String::new();
    for index in 0..world.members() {
        if !world.up(index) {
            writeln!(text, "{index} down").unwrap();
            continue;
        }
        let report = world.replica(index).report();
        writeln!(
            text,
            "{index} {:?} view={} log_view={} op={} committed={} executed={} checkpoint={}",
            report.status,
            report.view,
            report.log_view,
            report.op,
            report.commit_max,
            report.commit_min,
            report.checkpoint_op
        )
        .unwrap();
    }
    text
}
