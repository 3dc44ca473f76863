//! GW-7 against a model: in every order of events, a waiting request is answered as soon as there is enough and no
//! later than the deadline, with the right messages, and no two members of a group get the same.

use std::collections::{BTreeMap, BTreeSet};

use headrace_proto::catalog::v1::{self as records, delta::Change};
use headrace_wire::{
    Command, Consumer, ConsumerKind, Identifier, PollingStrategy, Status,
    command::{ConsumerOffsetPath, PollMessages, StoreConsumerOffset, WaitMessages},
    message::HEADER_BYTES,
    response::Polled,
};
use proptest::prelude::*;

use crate::world::{GATEWAY_ID, Reply, World, batch, to_partition};

const PARTITIONS: u32 = 4;
const PLAIN: usize = 3;
const MEMBERS: usize = 3;
/// Tolerance, because the world's clock advances a little with every event.
const SLACK_MICROS: u64 = 100_000;

#[derive(Debug, Clone)]
enum Step {
    Append {
        partition: u32,
        sizes: Vec<usize>,
    },
    Wait {
        who: usize,
        wanted: Wanted,
    },
    /// A member waits, for any of its partitions or for this one.
    WaitAsMember {
        who: usize,
        wanted: Wanted,
        is_named: bool,
    },
    Pass {
        micros: u64,
    },
    Store {
        who: usize,
        partition: u32,
        offset: u64,
    },
    /// Assign each partition to a member; an index beyond the members leaves it unassigned.
    Assign {
        owners: Vec<usize>,
    },
    Purge,
    Recreate,
    HoldStorage,
    HoldMail,
    Release,
    HangUp {
        who: usize,
    },
}

#[derive(Debug, Clone)]
struct Wanted {
    partition: u32,
    strategy: PollingStrategy,
    count: u32,
    minimum_bytes: u32,
    micros: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let strategy = prop_oneof![
        (0_u64..12).prop_map(PollingStrategy::Offset),
        Just(PollingStrategy::First),
        Just(PollingStrategy::Last),
        Just(PollingStrategy::Next),
        Just(PollingStrategy::Next),
    ];
    let wanted = (
        0..PARTITIONS,
        strategy,
        1_u32..8,
        prop_oneof![Just(1_u32), 65..2_000_u32],
        prop_oneof![500_000_u64..3_000_000, Just(u64::MAX)],
    )
        .prop_map(
            |(partition, strategy, count, minimum_bytes, micros)| Wanted {
                partition,
                strategy,
                count,
                minimum_bytes,
                micros,
            },
        );
    let sizes = prop::collection::vec(0_usize..400, 1..4);
    let step = prop_oneof![
        6 => (0..PARTITIONS, sizes).prop_map(|(partition, sizes)| Step::Append { partition, sizes }),
        6 => (0..PLAIN, wanted.clone()).prop_map(|(who, wanted)| Step::Wait { who, wanted }),
        6 => (0..MEMBERS, wanted, any::<bool>())
            .prop_map(|(who, wanted, is_named)| Step::WaitAsMember { who, wanted, is_named }),
        3 => (1_u64..2_000_000).prop_map(|micros| Step::Pass { micros }),
        2 => (0..PLAIN, 0..PARTITIONS, 0_u64..6)
            .prop_map(|(who, partition, offset)| Step::Store { who, partition, offset }),
        3 => prop::collection::vec(0..=MEMBERS, PARTITIONS as usize)
            .prop_map(|owners| Step::Assign { owners }),
        1 => Just(Step::Purge),
        1 => Just(Step::Recreate),
        2 => Just(Step::HoldStorage),
        2 => Just(Step::HoldMail),
        4 => Just(Step::Release),
        1 => (0..PLAIN + MEMBERS).prop_map(|who| Step::HangUp { who }),
    ];
    prop::collection::vec(step, 1..60)
}

struct Waiting {
    wanted: Wanted,
    is_named: bool,
    /// True if the member has owned the partition that it named since it began to wait.
    had_it: bool,
    deadline: u64,
}

struct Client {
    link: usize,
    waiting: Option<Waiting>,
}

/// State of one incarnation and purge epoch of the partitions.
#[derive(Default)]
struct Life {
    messages: BTreeMap<u32, Vec<Vec<u8>>>,
    /// Stored offset by client and partition; the group has the index after all clients.
    stored: BTreeMap<(usize, u32), u64>,
    given_to_members: BTreeSet<(u32, u64)>,
}

struct Model {
    world: World,
    sender: usize,
    clients: Vec<Client>,
    owners: Vec<usize>,
    life: Life,
    incarnation: u64,
    purge_epoch: u64,
    sent: u8,
    unanswered_sends: usize,
}

const GROUP: usize = PLAIN + MEMBERS;

impl Model {
    fn new() -> Self {
        let mut world = World::new().with_topic(PARTITIONS);
        let sender = world.login(0);
        let clients = (0..PLAIN + MEMBERS)
            .map(|index| Client {
                link: world.login(index % 2),
                waiting: None,
            })
            .collect();
        let mut model = Self {
            world,
            sender,
            clients,
            owners: vec![PLAIN, PLAIN, PLAIN + 1, PLAIN + 2],
            life: Life::default(),
            incarnation: 3,
            purge_epoch: 0,
            sent: 0,
            unanswered_sends: 0,
        };
        model.deal();
        model
    }

    fn deal(&mut self) {
        let group = self.group();
        self.world.publish(vec![group]);
    }

    /// Return the catalog change for the group.
    fn group(&mut self) -> Change {
        let members = (PLAIN..PLAIN + MEMBERS)
            .map(|index| {
                let client_id = u32::try_from(self.clients[index].link + 1).unwrap();
                records::GroupMember {
                    id: u32::try_from(index).unwrap(),
                    gateway_id: GATEWAY_ID,
                    client_id,
                    incarnation: 100 + u64::from(client_id),
                    partitions: (0..PARTITIONS)
                        .filter(|partition| self.owners[*partition as usize] == index)
                        .collect(),
                    ..Default::default()
                }
            })
            .collect();
        for (index, client) in self.clients.iter_mut().enumerate() {
            if let Some(waiting) = &mut client.waiting {
                waiting.had_it |= self.owners[waiting.wanted.partition as usize] == index;
            }
        }
        Change::ConsumerGroupPut(records::ConsumerGroup {
            name: "g".into(),
            // Offsets of the previous group do not apply to its successor.
            key: u32::try_from(self.incarnation).unwrap(),
            partitions_count: PARTITIONS,
            members,
            ..Default::default()
        })
    }

    fn is_held(&self) -> bool {
        self.world.storage_held || self.world.mail_held
    }

    fn release(&mut self) {
        self.world.release_storage();
        self.world.release_mail();
        self.world.release_storage();
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Append { partition, sizes } => self.append(partition, &sizes),
            Step::Wait { who, wanted } => self.wait(who, wanted, true),
            Step::WaitAsMember {
                who,
                wanted,
                is_named,
            } => self.wait(PLAIN + who, wanted, is_named),
            Step::Pass { micros } => self.world.pass(micros),
            Step::Store {
                who,
                partition,
                offset,
            } => self.store(who, partition, offset),
            Step::Assign { owners } => {
                self.owners = owners.into_iter().map(|owner| PLAIN + owner).collect();
                self.deal();
            }
            Step::Purge => {
                self.release();
                self.collect();
                self.purge_epoch += 1;
                self.begin_life();
            }
            Step::Recreate => {
                self.release();
                self.collect();
                self.incarnation += 1;
                self.begin_life();
            }
            Step::HoldStorage => self.world.storage_held = true,
            Step::HoldMail => self.world.mail_held = true,
            Step::Release => self.release(),
            Step::HangUp { who } => self.hang_up(who),
        }
        self.collect();
    }

    fn begin_life(&mut self) {
        self.life = Life::default();
        let topic = World::topic(PARTITIONS, self.incarnation, self.purge_epoch);
        // The groups of a deleted topic are deleted as well.
        let group = self.group();
        self.world.publish(vec![Change::TopicPut(topic), group]);
    }

    fn append(&mut self, partition: u32, sizes: &[usize]) {
        if self.unanswered_sends > 20 {
            return;
        }
        let payloads: Vec<Vec<u8>> = sizes
            .iter()
            .map(|size| {
                self.sent = self.sent.wrapping_add(1);
                vec![self.sent; *size + 1]
            })
            .collect();
        let slices: Vec<&[u8]> = payloads.iter().map(|payload| &payload[..]).collect();
        let batch = batch(&slices);
        let request = to_partition(&batch, partition);
        self.unanswered_sends += 1;
        (self.life.messages.entry(partition).or_default()).extend(payloads);
        self.world
            .request(self.sender, &Command::SendMessages(request));
    }

    fn consumer(who: usize) -> Consumer<'static> {
        if who < PLAIN {
            Consumer {
                kind: ConsumerKind::Consumer,
                id: Identifier::Numeric(u32::try_from(who).unwrap()),
            }
        } else {
            Consumer {
                kind: ConsumerKind::Group,
                id: Identifier::Named("g"),
            }
        }
    }

    fn wait(&mut self, who: usize, mut wanted: Wanted, is_named: bool) {
        if self.clients[who].waiting.is_some() {
            return;
        }
        if who >= PLAIN {
            wanted.strategy = PollingStrategy::Next;
        }
        let request = WaitMessages {
            poll: PollMessages {
                consumer: Self::consumer(who),
                stream: Identifier::Numeric(0),
                topic: Identifier::Named("t"),
                partition_id: is_named.then_some(wanted.partition),
                strategy: wanted.strategy,
                count: wanted.count,
                auto_commit: true,
            },
            minimum_bytes: wanted.minimum_bytes,
            maximum_wait_micros: wanted.micros,
        };
        let micros = wanted.micros.min(crate::world::WAIT_MICROS_MAX);
        self.clients[who].waiting = Some(Waiting {
            had_it: self.owners[wanted.partition as usize] == who,
            wanted,
            is_named,
            deadline: self.world.now + micros,
        });
        let link = self.clients[who].link;
        self.world.request(link, &Command::WaitMessages(request));
    }

    fn store(&mut self, who: usize, partition: u32, offset: u64) {
        self.release();
        self.collect();
        let path = ConsumerOffsetPath {
            consumer: Self::consumer(who),
            stream: Identifier::Numeric(0),
            topic: Identifier::Numeric(0),
            partition_id: Some(partition),
        };
        let count = self.life.messages.get(&partition).map_or(0, Vec::len) as u64;
        let command = Command::StoreConsumerOffset(StoreConsumerOffset { path, offset });
        let reply = self.world.ask(self.sender, &command);
        if offset < count {
            assert_eq!(reply.status, Status::OK);
            self.life.stored.insert((who, partition), offset);
        } else {
            assert_eq!(reply.status, Status::INVALID_OFFSET);
        }
    }

    /// Close a client's connection while it has nothing in flight, so that nothing is lost.
    fn hang_up(&mut self, who: usize) {
        self.release();
        self.collect();
        self.world.hang_up(self.clients[who].link);
        self.clients[who] = Client {
            link: self.world.login(who % 2),
            waiting: None,
        };
        self.deal();
    }

    /// Take and check all answers. If nothing is held back, check that no further answer is due.
    fn collect(&mut self) {
        while let Some(reply) = self.world.try_reply(self.sender) {
            assert_eq!(reply.status, Status::OK);
            self.unanswered_sends -= 1;
        }
        for who in 0..self.clients.len() {
            let link = self.clients[who].link;
            while let Some(reply) = self.world.try_reply(link) {
                let waiting = self.clients[who].waiting.take().expect("it was asked for");
                self.check(who, &waiting, &reply);
            }
        }
        if self.is_held() {
            return;
        }
        assert_eq!(self.unanswered_sends, 0);
        for (who, client) in self.clients.iter().enumerate() {
            let Some(waiting) = &client.waiting else {
                continue;
            };
            assert!(
                self.world.now < waiting.deadline + SLACK_MICROS,
                "{who} has waited too long"
            );
            let owned = |partition: &u32| self.owners[*partition as usize] == who;
            let places: Vec<u32> = match (who < PLAIN, waiting.is_named) {
                (true, _) => vec![waiting.wanted.partition],
                (false, true) => {
                    let is_owned = owned(&waiting.wanted.partition);
                    assert!(is_owned || !waiting.had_it, "{who} lost what it waits for");
                    Some(waiting.wanted.partition)
                        .filter(|_| is_owned)
                        .into_iter()
                        .collect()
                }
                (false, false) => (0..PARTITIONS).filter(owned).collect(),
            };
            for place in places {
                assert!(
                    !self.has_enough(who, place, &waiting.wanted),
                    "{who} was not woken at {place}: {:?}",
                    waiting.wanted
                );
            }
        }
    }

    fn start(&self, who: usize, partition: u32, wanted: &Wanted) -> u64 {
        let count = self.life.messages.get(&partition).map_or(0, Vec::len) as u64;
        match wanted.strategy {
            PollingStrategy::Offset(offset) => offset,
            PollingStrategy::Last => count.saturating_sub(u64::from(wanted.count)),
            PollingStrategy::Next => {
                let consumer = if who < PLAIN { who } else { GROUP };
                let stored = self.life.stored.get(&(consumer, partition));
                stored.map_or(0, |stored| stored + 1)
            }
            PollingStrategy::First | PollingStrategy::Timestamp(_) => 0,
        }
    }

    fn has_enough(&self, who: usize, partition: u32, wanted: &Wanted) -> bool {
        let start = usize::try_from(self.start(who, partition, wanted)).unwrap();
        let messages = self.life.messages.get(&partition);
        let found: Vec<usize> = messages
            .iter()
            .flat_map(|messages| messages.iter().skip(start))
            .take(wanted.count as usize)
            .map(|payload| payload.len() + HEADER_BYTES)
            .collect();
        found.len() == wanted.count as usize
            || found.iter().sum::<usize>() >= wanted.minimum_bytes as usize
    }

    fn check(&mut self, who: usize, waiting: &Waiting, reply: &Reply) {
        assert_eq!(reply.status, Status::OK, "{who}");
        let polled = Polled::decode(&reply.payload).expect("an answer to a poll");
        let partition = polled.header.partition_id;
        let found: Vec<(u64, Vec<u8>)> = polled
            .messages()
            .map(|message| message.expect("whole"))
            .map(|message| (message.header().offset(), message.payload().to_vec()))
            .collect();
        let bytes = polled.message_bytes.len();
        let wanted = &waiting.wanted;
        let has_enough =
            found.len() == wanted.count as usize || bytes >= wanted.minimum_bytes as usize;
        let is_due = self.world.now >= waiting.deadline;
        let has_lost = who >= PLAIN && waiting.is_named && found.is_empty();
        assert!(has_enough || is_due || has_lost, "{who} was answered early");
        let Some((first, _)) = found.first() else {
            return;
        };
        assert!(found.len() <= wanted.count as usize);
        if waiting.is_named {
            assert_eq!(partition, wanted.partition);
        }
        let messages = &self.life.messages[&partition];
        for (index, (offset, payload)) in found.iter().enumerate() {
            assert_eq!(*offset, first + index as u64);
            assert_eq!(payload, &messages[usize::try_from(*offset).unwrap()]);
        }
        let last = first + found.len() as u64 - 1;
        if who >= PLAIN {
            // Answers that were held back arrive in any order, but without duplicates.
            for offset in *first..=last {
                let is_new = self.life.given_to_members.insert((partition, offset));
                assert!(is_new, "{offset} of {partition} was given to two members");
            }
            let stored = self.life.stored.entry((GROUP, partition)).or_default();
            *stored = last.max(*stored);
            return;
        }
        match wanted.strategy {
            PollingStrategy::Last => assert!(last < messages.len() as u64),
            _ => assert_eq!(*first, self.start(who, partition, wanted)),
        }
        self.life.stored.insert((who, partition), last);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn who_waits_is_answered_in_time_and_with_the_right_messages(steps in steps()) {
        let mut model = Model::new();
        for step in steps {
            model.apply(step);
        }
        model.release();
        model.collect();
        model.world.pass(crate::world::WAIT_MICROS_MAX + SLACK_MICROS);
        model.collect();
        prop_assert!(model.clients.iter().all(|client| client.waiting.is_none()));
        prop_assert_eq!(model.world.next_deadline(), None);
    }
}
