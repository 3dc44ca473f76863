//! Gateway that is controlled by the test.

use headrace_link::{
    CallHeader, Membership, PartitionRef, RequestId, ToGateway, ToNode, VERSION, WhenReady,
};
use headrace_model::{Namespace, Offset, owner_shard};
use headrace_partition::{Batch, ConsumerKey, Poll, PollingStrategy, Request};
use headrace_ticket::{Scope, Ticket};
use headrace_wire::{
    Command, Identifier, Partitioning,
    command::OpenLink,
    frame::{REQUEST_HEADER_BYTES, RequestHeader},
};

use crate::shards::nodes::HERE;
use crate::world::{World, batch, ticket_key};

/// Incarnation that `World::with_topic` gives to the topic and its partitions.
pub const INCARNATION: u64 = 3;

/// The gateway's end of one link.
pub struct Peer {
    pub link: usize,
    next: u64,
}

/// A ticket of the cluster that is valid for 10 seconds.
pub fn ticket(world: &World, scope: Scope) -> String {
    let ticket = Ticket {
        holder: "gateway".into(),
        scope,
        not_after: world.now / 1_000_000 + 10,
        id: 1,
        issuer: None,
    };
    ticket.sign(&ticket_key()).expect("a sound holder")
}

/// Return the shard of the node that owns a partition.
pub fn shard_of(namespace: Namespace) -> u16 {
    owner_shard(namespace, 2.try_into().unwrap()).0
}

/// A partition with the incarnation and epoch that a gateway knows.
pub fn place(namespace: Namespace) -> PartitionRef {
    PartitionRef {
        namespace,
        incarnation: INCARNATION,
        purge_epoch: 0,
    }
}

/// A poll from the first message on.
pub fn poll(strategy: PollingStrategy) -> Poll {
    Poll {
        strategy,
        count: 1000,
        consumer: Some(ConsumerKey::Consumer(7)),
        auto_commit: false,
        by: None,
        minimum_bytes: 0,
        bytes_max: Poll::UNLIMITED,
    }
}

/// Messages with these payloads, in the format of a request.
pub fn messages(payloads: &[&[u8]]) -> Batch {
    let batch = batch(payloads);
    let request = batch.request(
        Identifier::Numeric(0),
        Identifier::Numeric(0),
        Partitioning::Balanced,
    );
    Batch::copied(request.messages, request.messages_count)
}

impl Peer {
    /// Open a link to `shard` on a connection to `at`, and take the first response.
    pub fn open(world: &mut World, at: usize, shard: u16) -> Self {
        let version = world.version();
        let mut peer = Self::ask(world, at, shard, version);
        let welcome = peer.hear(world);
        assert!(
            matches!(welcome[..], [ToGateway::Welcome { .. }]),
            "{welcome:?}"
        );
        assert_eq!(world.shard_of(peer.link), usize::from(shard));
        peer
    }

    /// Request a link to `shard` on a connection to `at`.
    pub fn ask(world: &mut World, at: usize, shard: u16, catalog_version: u64) -> Self {
        let link = world.connect(at);
        let ticket = ticket(world, Scope::Cluster);
        let request = Command::OpenLink(OpenLink {
            version: VERSION,
            node_id: HERE,
            shard,
            gateway: 5,
            catalog_version,
            ticket: &ticket,
        });
        world.request(link, &request);
        Self { link, next: 0 }
    }

    /// A link to the shard of a partition.
    pub fn to(world: &mut World, namespace: Namespace) -> Self {
        Self::open(world, 0, shard_of(namespace))
    }

    /// Reuse the number of the last call for the next one.
    pub fn repeat(&mut self) {
        self.next -= 1;
    }

    pub fn call(&mut self) -> RequestId {
        self.next += 1;
        RequestId(self.next)
    }

    pub fn say(&mut self, world: &mut World, frame: ToNode) {
        let bytes: Vec<u8> = (frame.encode().iter())
            .flat_map(|slice| slice.to_vec())
            .collect();
        world.write(self.link, &bytes);
    }

    /// Take all frames since the last call.
    pub fn hear(&mut self, world: &mut World) -> Vec<ToGateway> {
        let (frames, rest) = self.hear_all(world);
        assert_eq!(rest, [], "only frames are said");
        frames
    }

    /// Take all frames since the last call, and the bytes after them that are not a frame.
    pub fn hear_all(&mut self, world: &mut World) -> (Vec<ToGateway>, Vec<u8>) {
        let mut bytes = world.take_back(self.link);
        let mut frames = Vec::new();
        while let Some(header) = bytes.first_chunk::<REQUEST_HEADER_BYTES>() {
            let header = RequestHeader::parse(header);
            if header.code == 0 || headrace_link::refusal(header).is_some() {
                break;
            }
            let payload_bytes = header.payload_bytes().expect("a whole header") as usize;
            let end = REQUEST_HEADER_BYTES + payload_bytes;
            let payload = &bytes[REQUEST_HEADER_BYTES..end];
            frames.push(ToGateway::decode(header.code, payload).expect("a sound frame"));
            bytes.drain(..end);
        }
        (frames, bytes)
    }

    /// Send a request. Its answer is among the next frames.
    pub fn request(
        &mut self,
        world: &mut World,
        place: PartitionRef,
        request: Request,
    ) -> RequestId {
        let call = self.call();
        self.request_as(world, call, place, request);
        call
    }

    fn request_as(
        &mut self,
        world: &mut World,
        call: RequestId,
        place: PartitionRef,
        request: Request,
    ) {
        let header = CallHeader {
            call,
            place,
            member: None,
            trace: None,
        };
        self.say(world, ToNode::Request { header, request });
    }

    pub fn append(
        &mut self,
        world: &mut World,
        place: PartitionRef,
        payloads: &[&[u8]],
    ) -> RequestId {
        let call = self.call();
        self.append_as(world, call, place, payloads);
        call
    }

    /// Send a batch under a call number that may have been used before.
    pub fn append_as(
        &mut self,
        world: &mut World,
        call: RequestId,
        place: PartitionRef,
        payloads: &[&[u8]],
    ) {
        let batch = messages(payloads);
        self.request_as(world, call, place, Request::Append { batch });
    }

    pub fn wait(
        &mut self,
        world: &mut World,
        place: PartitionRef,
        (poll, when_ready): (Poll, WhenReady),
        member: Option<Membership>,
    ) -> RequestId {
        let call = self.call();
        let frame = ToNode::Wait {
            header: CallHeader {
                call,
                place,
                member,
                trace: None,
            },
            poll,
            when_ready,
        };
        self.say(world, frame);
        call
    }
}

/// Offset of the first polled message, and the number of messages.
pub fn polled(heard: &[ToGateway]) -> (Option<Offset>, u32) {
    let [
        ToGateway::Answer {
            result: Ok(headrace_partition::Response::Polled(polled)),
            ..
        },
    ] = heard
    else {
        panic!("no answer to a poll: {heard:?}");
    };
    (polled.last_offset, polled.messages_count)
}
