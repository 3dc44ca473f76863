//! Statistics, diagnostics, nodes of the cluster, and client listings.

use std::collections::BTreeMap;

use headrace_catalog::Action;
use headrace_link::TraceContext;
use headrace_model::{ClientId, ClientKey};
use headrace_proto::control::v1::{self as control, request::Operation};
use headrace_wire::{
    NodeRole, NodeStatus, Status,
    command::{DisconnectClient, GetClient, GetSnapshot, SetTraceContext},
    response::{
        ClientDetails, ClientGroup, ClientHeader, ClusterMetadata, ClusterNode, Stats,
        semantic_version,
    },
};

use super::{Context, Handled, Outcome};
use crate::{
    Client,
    moment::Moment,
    sessions::{connection::payload_response, registry::ClientRegistry},
};

fn client_header<'a>(client: &Client, address: &'a str, groups_count: u32) -> ClientHeader<'a> {
    ClientHeader {
        client_id: client.id.0,
        user_id: client.user.map(|user| user.0),
        transport: client.arrival.transport,
        address,
        groups_count,
    }
}

impl Context<'_> {
    /// Describe a connection with its groups.
    fn client_details(&self, client: &Client) -> Outcome {
        let key = ClientKey {
            gateway: self.moment.config.gateway,
            client: client.id,
        };
        let groups: Vec<ClientGroup> = self
            .catalog
            .groups_of_client(key)
            .map(|group| ClientGroup {
                stream_id: group.stream_id.0,
                topic_id: group.topic_id.0,
                group_id: group.id.0,
            })
            .collect();
        let address = client.arrival.address.to_string();
        let details = ClientDetails {
            client: client_header(client, &address, 0),
            groups,
        };
        Outcome::payload(|out| details.encode(out))
    }

    pub(super) fn get_stats(&self) -> Handled {
        self.allow(Action::ReadServers)?;
        Ok(Outcome::Control(Operation::GetHostStatistics(
            control::GetHostStatistics {},
        )))
    }

    /// Collect diagnostics. These contain logs and settings, so they require permission to read the server, not just a
    /// login.
    pub(super) fn get_snapshot(&self, request: &GetSnapshot<'_>) -> Handled {
        let compression = request.compression()?;
        let kinds = request.kinds()?;
        self.allow(Action::ReadServers)?;
        Ok(Outcome::Control(Operation::GetDiagnostics(
            control::GetDiagnostics {
                compression: compression.code().into(),
                kinds: kinds.into_iter().map(|kind| kind.code().into()).collect(),
            },
        )))
    }

    pub(super) fn get_cluster_metadata(&self) -> Outcome {
        let cluster = &self.moment.config.cluster;
        let nodes = cluster
            .nodes
            .iter()
            .enumerate()
            .map(|(index, node)| ClusterNode {
                name: &node.name,
                ip: &node.ip,
                tcp_port: node.tcp_port,
                quic_port: node.quic_port,
                http_port: node.http_port,
                websocket_port: node.websocket_port,
                role: if index == 0 {
                    NodeRole::Leader
                } else {
                    NodeRole::Follower
                },
                status: NodeStatus::Healthy,
            })
            .collect();
        Outcome::payload(|out| {
            ClusterMetadata {
                name: &cluster.name,
                nodes,
            }
            .encode(out);
        })
    }

    pub(super) fn get_me(&self) -> Handled {
        let client = self
            .clients
            .client(self.client)
            .ok_or(Status::CLIENT_NOT_FOUND)?;
        Ok(self.client_details(&client))
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "all handlers have one form"
    )]
    pub(super) fn get_client(&self, request: &GetClient) -> Handled {
        self.allow(Action::ReadServers)?;
        if request.client_id == 0 {
            return Err(Status::INVALID_CLIENT_ID);
        }
        let client = self.clients.client(ClientId(request.client_id));
        Ok(client.map_or_else(Outcome::empty, |client| self.client_details(&client)))
    }

    /// Close a client's connection. The close follows some milliseconds later, whatever is in flight.
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "all handlers have one form"
    )]
    pub(super) fn disconnect_client(&self, request: &DisconnectClient) -> Handled {
        self.allow(Action::ManageServers)?;
        if request.client_id == 0 {
            return Err(Status::INVALID_CLIENT_ID);
        }
        if self.clients.disconnect(ClientId(request.client_id)) {
            Ok(Outcome::empty())
        } else {
            Err(Status::CLIENT_NOT_FOUND)
        }
    }

    #[expect(clippy::unused_self, reason = "all handlers have one form")]
    pub(super) fn set_trace_context(&self, request: &SetTraceContext) -> Outcome {
        let SetTraceContext {
            trace_id,
            span_id,
            flags,
        } = *request;
        Outcome::Trace(TraceContext::sampled(trace_id, span_id, flags))
    }

    pub(super) fn get_clients(&self) -> Handled {
        self.allow(Action::ReadServers)?;
        let clients = self.clients.clients();
        let mut groups_counts: BTreeMap<ClientId, u32> = BTreeMap::new();
        for member in self.catalog.groups().flat_map(|group| &group.members) {
            if member.client.gateway == self.moment.config.gateway {
                *groups_counts.entry(member.client.client).or_default() += 1;
            }
        }
        Ok(Outcome::payload(|out| {
            for client in &clients {
                let groups_count = groups_counts.get(&client.id).copied().unwrap_or(0);
                client_header(client, &client.arrival.address.to_string(), groups_count)
                    .encode(out);
            }
        }))
    }
}

/// Encode the statistics of the process, joined with those of the catalog and the partitions.
pub(crate) fn stats_response(
    moment: Moment<'_>,
    clients: &ClientRegistry,
    host: &control::HostStatistics,
) -> headrace_buffer::Slice {
    let catalog = moment.catalog;
    let mut totals = headrace_catalog::Totals::default();
    let mut topics_count = 0;
    for stream in catalog.streams() {
        topics_count += u32::try_from(stream.topics_count()).expect("at most 4096");
        totals = [totals, stream.totals()].into_iter().sum();
    }
    let (major, minor, patch) = moment.config.version;
    let stats = Stats {
        process_id: host.process_id,
        cpu_usage: host.cpu_usage_percent,
        total_cpu_usage: host.total_cpu_usage_percent,
        memory_usage: host.memory_usage_bytes,
        total_memory: host.total_memory_bytes,
        available_memory: host.available_memory_bytes,
        run_time: host.run_time_micros,
        start_time: host.start_time_micros,
        read_bytes: host.read_bytes,
        written_bytes: host.written_bytes,
        messages_size_bytes: totals.size_bytes,
        streams_count: u32::try_from(catalog.streams().len()).expect("at most 4096"),
        topics_count,
        partitions_count: totals.partitions_count,
        segments_count: totals.segments_count,
        messages_count: totals.messages_count,
        clients_count: u32::try_from(clients.count()).unwrap_or(u32::MAX),
        consumer_groups_count: u32::try_from(catalog.groups().count()).unwrap_or(u32::MAX),
        hostname: &host.hostname,
        os_name: &host.os_name,
        os_version: &host.os_version,
        kernel_version: &host.kernel_version,
        server_version: &format!("{major}.{minor}.{patch}"),
        server_semver: semantic_version(major, minor, patch).unwrap_or_default(),
        cache_metrics: Vec::new(),
        threads_count: host.threads_count,
        free_disk_space: host.free_disk_space_bytes,
        total_disk_space: host.total_disk_space_bytes,
    };
    payload_response(|out| stats.encode(out))
}
