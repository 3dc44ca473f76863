/** Responses of the HTTP API, as far as the console uses them. Times are microseconds since the Unix epoch. */

export interface Stats {
  process_id: number;
  cpu_usage: number;
  total_cpu_usage: number;
  memory_usage: number;
  total_memory: number;
  available_memory: number;
  run_time: number;
  start_time: number;
  read_bytes: number;
  written_bytes: number;
  messages_size_bytes: number;
  streams_count: number;
  topics_count: number;
  partitions_count: number;
  segments_count: number;
  messages_count: number;
  clients_count: number;
  consumer_groups_count: number;
  hostname: string;
  os_name: string;
  os_version: string;
  kernel_version: string;
  iggy_server_version: string;
  threads_count: number;
  free_disk_space: number;
  total_disk_space: number;
}

export interface StatsSample {
  timestamp: number;
  messages_count: number;
  messages_size_bytes: number;
  cpu_usage: number;
  total_cpu_usage: number;
  memory_usage: number;
}

export interface StatsHistory {
  interval_seconds: number;
  /** Oldest first; the last one is of now. */
  samples: StatsSample[];
}

export interface ClusterNode {
  name: string;
  address: string;
  state: "live" | "draining" | "unreachable" | "silent";
  shards_count: number;
  partitions_count: number;
}

/** Numbers are null if the replica did not answer. */
export interface MetadataReplica {
  address: string;
  state: "primary" | "backup" | "view change" | "recovering" | "halted" | "no answer" | "unknown";
  view: number | null;
  commit: number | null;
  applied: number | null;
  release: string | null;
  is_storage_full: boolean;
}

export interface ClusterState {
  name: string;
  kind: "embedded" | "gateway";
  process_name: string;
  release: string;
  unready: string | null;
  catalog_version: number;
  catalog_age_seconds: number | null;
  nodes: ClusterNode[];
  replicas: MetadataReplica[];
}

export interface Stream {
  id: number;
  created_at: number;
  name: string;
  size: number;
  messages_count: number;
  topics_count: number;
}

export interface Topic {
  id: number;
  created_at: number;
  name: string;
  size: number;
  message_expiry: number;
  max_topic_size: number;
  compression_algorithm: "none" | "gzip";
  replication_factor: number;
  messages_count: number;
  partitions_count: number;
}

export interface StreamDetails extends Stream {
  topics: Topic[];
}

export interface Partition {
  id: number;
  created_at: number;
  segments_count: number;
  current_offset: number;
  size: number;
  messages_count: number;
  first_offset: number;
  /** Microseconds; null if unknown, or if nothing is ever removed. */
  next_deletion: number | null;
  state: "serving" | "failed" | "unreachable" | "unplaced";
  node: string | null;
}

export interface TopicDetails extends Topic {
  partitions: Partition[];
}

export interface Group {
  id: number;
  name: string;
  partitions_count: number;
  members_count: number;
}

export interface GroupLag extends Group {
  stream_id: number;
  stream_name: string;
  topic_id: number;
  topic_name: string;
  /** Null if it was not computed. */
  lag_messages: number | null;
  lag_seconds: number | null;
}

export interface PartitionLag {
  partition_id: number;
  stored_offset: number | null;
  last_offset: number | null;
  /** Null if the node of the partition is not reached. */
  lag_messages: number | null;
  lag_seconds: number | null;
  member: number | null;
}

export interface Lag {
  lag_messages: number;
  lag_seconds: number | null;
  partitions: PartitionLag[];
}

export interface User {
  id: number;
  created_at: number;
  status: "active" | "inactive";
  username: string;
}

export type Rights = Record<string, boolean>;

export interface StreamRights {
  manage_stream: boolean;
  read_stream: boolean;
  manage_topics: boolean;
  read_topics: boolean;
  poll_messages: boolean;
  send_messages: boolean;
  topics: Record<string, Rights> | null;
}

export interface Permissions {
  global: Rights;
  streams: Record<string, StreamRights> | null;
}

export interface UserDetails extends User {
  permissions: Permissions | null;
}

export interface AccessToken {
  name: string;
  expiry_at: number | null;
}

export interface ClientConnection {
  client_id: number;
  user_id: number | null;
  address: string;
  transport: string;
  consumer_groups_count: number;
}

export interface ClientDetails extends ClientConnection {
  consumer_groups: { stream_id: number; topic_id: number; group_id: number; member: number | null }[];
}

export interface LogRecord {
  sequence: number;
  timestamp: number;
  level: "debug" | "info" | "warning" | "error";
  logger: string;
  message: string;
  fields: Record<string, string | number | boolean | null>;
  exception: string | null;
}

export interface Logs {
  records: LogRecord[];
  last: number;
  missed: number;
}

export interface Setting {
  name: string;
  value: string | null;
  is_set: boolean;
  is_secret: boolean;
  is_default: boolean;
  origin: string;
  variable: string;
  description: string;
  allowed: string;
}
