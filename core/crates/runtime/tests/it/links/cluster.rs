//! A gateway and two nodes in one process, with a manually built catalog.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use headrace_model::UserId;
use headrace_proto::catalog::v1 as records;
use headrace_runtime::{Node, NodeConfig};
use tempfile::TempDir;

use crate::links::{proxy::Proxy, session::Session};

/// Timeout of the tests, longer than any step takes even on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of shards of each process.
const SHARDS: u32 = 2;

/// A partition node that can be stopped and started.
pub struct PartitionNode {
    node: Option<Node>,
    config: NodeConfig,
    pub address: SocketAddr,
    catalog: records::Snapshot,
    directory: TempDir,
}

pub struct Cluster {
    gateway: Node,
    pub nodes: Vec<PartitionNode>,
    /// Proxies between the gateway and each node.
    pub proxies: Vec<Proxy>,
}

fn config(driver: &str, name: &str, hosting: &str) -> NodeConfig {
    NodeConfig {
        tcp_address: None,
        cpu_allocation: format!("{SHARDS}"),
        driver: driver.into(),
        node_name: name.into(),
        hosting: hosting.into(),
        cluster_name: "cluster".into(),
        cluster_secret: "a secret of the cluster".into(),
        link_connect_timeout_micros: 1_000_000,
        // Longer than the longest pause between two attempts to reach a node, plus the time to start one.
        link_timeout_micros: 5_000_000,
        memory_pool_bytes: 512 << 20,
        ..NodeConfig::default()
    }
}

/// Node that serves a partition.
fn holder(id: u32) -> u32 {
    id % 2 + 1
}

fn catalog(partitions: u32, addresses: &[SocketAddr]) -> records::Snapshot {
    records::Snapshot {
        version: 1,
        streams: vec![records::Stream {
            name: "s".into(),
            created_at_micros: 1,
            incarnation: 1,
            ..Default::default()
        }],
        topics: vec![records::Topic {
            name: "t".into(),
            created_at_micros: 1,
            incarnation: 1,
            compression: records::CompressionAlgorithm::None.into(),
            message_expiry_micros: u64::MAX,
            max_size_bytes: u64::MAX,
            replication_factor: 1,
            partitions: (0..partitions)
                .map(|id| records::Partition {
                    id,
                    created_at_micros: 1,
                    incarnation: 1,
                })
                .collect(),
            ..Default::default()
        }],
        users: vec![records::User {
            username: "root".into(),
            created_at_micros: 1,
            status: records::UserStatus::Active.into(),
            ..Default::default()
        }],
        nodes: (1..)
            .zip(addresses)
            .map(|(id, address)| records::Node {
                id,
                name: format!("n{id}"),
                incarnation: 1,
                binary_address: address.to_string(),
                shards: SHARDS,
                registered_at_micros: 1,
                status: records::NodeStatus::Live.into(),
                ..Default::default()
            })
            .collect(),
        topic_placements: vec![records::TopicPlacement {
            partitions: (0..partitions)
                .map(|id| records::PartitionPlacement {
                    node_ids: vec![holder(id)],
                    holder_node_id: holder(id),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

impl PartitionNode {
    fn new(driver: &str, id: u32) -> Self {
        let directory = TempDir::new().unwrap();
        let config = NodeConfig {
            data_path: directory.path().to_owned(),
            tcp_address: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            ..config(driver, &format!("n{id}"), "placed")
        };
        let mut node = Self {
            node: None,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            config,
            catalog: records::Snapshot::default(),
            directory,
        };
        node.begin();
        node.config.tcp_address = Some(node.address);
        node
    }

    fn begin(&mut self) {
        let node = Node::new(self.config.clone()).unwrap();
        self.address = node.start().unwrap().tcp_address.unwrap();
        self.node = Some(node);
    }

    fn serve(&mut self) {
        let node = self.node.as_ref().unwrap();
        node.publish_snapshot(&self.catalog).unwrap();
        node.listen().unwrap();
    }

    pub fn start(&mut self) {
        self.begin();
        self.serve();
    }

    pub fn stop(&mut self) {
        let node = self.node.take().expect("it runs");
        assert!(node.stop(TIMEOUT), "it stops in an orderly way");
    }
}

impl Cluster {
    pub fn start(driver: &str, partitions: u32) -> Self {
        let mut nodes = [1, 2].map(|id| PartitionNode::new(driver, id));
        let proxies = nodes.each_ref().map(|node| Proxy::to(node.address));
        let addresses = proxies.each_ref().map(|proxy| proxy.address);
        let catalog = catalog(partitions, &addresses);
        for node in &mut nodes {
            node.catalog = catalog.clone();
            node.serve();
        }
        let directory = TempDir::new().unwrap();
        let gateway = Node::new(NodeConfig {
            data_path: directory.path().to_owned(),
            ..config(driver, "gateway", "nothing")
        });
        let gateway = gateway.unwrap();
        gateway.publish_snapshot(&catalog).unwrap();
        gateway.start().unwrap();
        Self {
            gateway,
            nodes: nodes.into(),
            proxies: proxies.into(),
        }
    }

    /// Connect a client to the gateway and log in.
    pub fn session(&self) -> Session {
        Session::new(self.gateway.open_session(UserId(0), None).unwrap())
    }

    /// Number of partition directories of a node.
    pub fn directories(&self, node: usize) -> usize {
        let partitions = self.nodes[node]
            .directory
            .path()
            .join("streams/0/topics/0/partitions");
        std::fs::read_dir(partitions).map_or(0, Iterator::count)
    }

    /// Log events of the gateway, once there are at least two.
    pub fn events(&self) -> Vec<String> {
        let deadline = Instant::now() + TIMEOUT;
        let mut said = Vec::new();
        while said.len() < 2 && Instant::now() < deadline {
            let events = self.gateway.take_events();
            said.extend(events.into_iter().map(|event| event.message));
            std::thread::sleep(Duration::from_millis(5));
        }
        said
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.gateway.stop(TIMEOUT);
    }
}
